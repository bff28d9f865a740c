"""What tests use of the values: specs, policies, ranks, errors."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.values": "cpusets figures",
        "procession.values.base": "Record Value is_count",
        "procession.values.cpusets": "Cpu bind deal in_turn shares",
        "procession.values.environment": "Node among given_run_id rank_environment",
        "procession.values.errors": (
            "Exit GroupEnd HUNG_CODE Outcome ProcessionError RankEnd SIMULTANEOUS SpecError "
            "StartFailed signal_name"
        ),
        "procession.values.events": "Event",
        "procession.values.masking": "masked masked_words names_secret",
        "procession.values.placement": "Placement read_size",
        "procession.values.policy": "Hang Logs Restart Route Std Stop",
        "procession.values.program": (
            "Command Function Module Script as_program program_problem words_of"
        ),
        "procession.values.figures": "LONGEST_RANKS fold_ranks parse_ranks short_ranks",
        "procession.values.ranks": "by_rank",
        "procession.values.spec": "make_spec",
    }
)
