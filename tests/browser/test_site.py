"""Every page of the site in a real browser, wide and narrow: it fits, and shows its pictures.

Called by `make docs`, which builds the site and names it in PROCESSION_SITE. With
PROCESSION_PICTURES=DIRECTORY, pictures of some pages are kept there, to be looked at.
"""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from support import PROCESSION

SITE = os.environ.get("PROCESSION_SITE", "")
BROWSER = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(not SITE, reason="no site is built: make docs"),
    pytest.mark.skipif(not BROWSER, reason="there is no chromium (Debian package chromium)"),
    pytest.mark.timeout(120),
]
WIDTHS = {"wide": 1280, "narrow": 390}
HEIGHT = 1000
SHOWN = ("index.html", "migrating/index.html", "troubleshooting/index.html", "adopt/index.html")
LEAST = 20_000  # bytes of a picture; one of an empty page has a few thousand
# Opens each page in a frame of a given width, and says what does not fit.
LOOKER = """
<!doctype html><title>looking</title><body><pre id="found"></pre>
<script>
async function look(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 1000px; border: 0`;
  frame.src = page;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const inside = frame.contentDocument, root = inside.documentElement;
  const said = {
    page, width,
    title: inside.title,
    heading: inside.querySelector("article h1")?.innerText ?? "",
    over: root.scrollWidth - root.clientWidth,
    broken: [...inside.images].filter(each => !(each.complete && each.naturalWidth)).length,
    words: inside.querySelector("article")?.innerText.split(/\\s+/).length ?? 0,
  };
  frame.remove();
  return said;
}
async function all(asked) {
  const found = [];
  for (const [page, width] of asked) found.push(await look(page, width));
  document.getElementById("found").innerText = JSON.stringify(found);
}
all(ASKED);
</script>
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def address(tmp_path):
    """Give the address at which `tmp_path/served` is, with the site in `site`."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "site").symlink_to(SITE)
    handler = functools.partial(Quiet, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def browse(tmp_path, *words):
    """Have a browser do something, and end; gives what it prints."""
    common = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
              "--disable-background-networking", "--disable-breakpad", "--hide-scrollbars",
              f"--user-data-dir={tmp_path / 'profile'}")  # fmt: skip
    home = dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), str(tmp_path))
    done = subprocess.run(
        # Which leaves nothing of it.
        [*PROCESSION, "run", "--prefix", "", BROWSER, *common, *words], env={**os.environ, **home},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_page_fits(tmp_path, address):
    """Nothing is wider than the window, no picture is missing, and each page has its heading."""
    pages = sorted(str(p.relative_to(SITE)) for p in Path(SITE).rglob("index.html"))
    assert len(pages) > 30
    asked = [(f"/site/{quote(page)}", width) for page in pages for width in WIDTHS.values()]
    looker = LOOKER.replace("ASKED", json.dumps(asked))
    (tmp_path / "served" / "looker.html").write_text(looker)
    shown = browse(tmp_path, "--virtual-time-budget=60000", "--dump-dom", f"{address}/looker.html")
    found = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)[1]))
    assert len(found) == len(asked)
    assert [each for each in found if each["over"] > 0 or each["broken"]] == []
    assert [each for each in found if not each["heading"] or each["words"] < 30] == []


@pytest.mark.parametrize("name", WIDTHS)
def test_pictures(tmp_path, address, name):
    """Pages are drawn: a picture of each is more than an empty window."""
    kept = os.environ.get("PROCESSION_PICTURES")
    for page in SHOWN:
        file = tmp_path / f"{page.partition('/')[0].removesuffix('.html')}_{name}.png"
        words = (f"--screenshot={file}", f"--window-size={WIDTHS[name]},{HEIGHT}")
        browse(tmp_path, *words, f"{address}/site/{page}")
        assert file.stat().st_size > LEAST, page
        if kept:
            os.makedirs(kept, exist_ok=True)
            shutil.copy(file, kept)
