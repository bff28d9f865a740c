"""What tests use of launchers that find each other."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.api.together": "read_terms",
        "procession.driver.reception": "Reception",
        "procession.engines.rendezvous.hosting": "is_own open_door",
        "procession.engines.rendezvous.member": "make_node_process take_part why_none",
        "procession.engines.rendezvous.munge": "Munge",
        "procession.engines.rendezvous.secret": (
            "Trust find_trust link_key say_who_may_join take_secret"
        ),
        "procession.engines.rendezvous.terms": "C10D REFUSED STATIC Terms parse_conf terms_of_conf",
    }
)
