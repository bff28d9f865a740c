"""Every page of the site in a real browser, wide and narrow: it fits, and shows its pictures.

Called by `make docs`, which builds the site and names it in PROCESSION_SITE. With
PROCESSION_PICTURES=DIRECTORY, pictures of some pages are kept there, to be looked at.
"""

import functools
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from contextlib import contextmanager
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
SHOWN = [
    f"{page}index.html"
    for page in (
        "",
        "from-torchrun/",
        "reference/errors/",
        "guides/failures/",
        "reference/python/",
        "clusters/",
    )
]
MOST_HEIGHT = 8000  # pixels of a page, wide
LEAST = 20_000  # bytes of a picture; one of an empty page has a few thousand
# Opens each page in a frame of a given width, and says what does not fit.
LOOKER = """
<!doctype html><title>looking</title><body>
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
    height: root.scrollHeight,
    broken: [...inside.images].filter(each => !(each.complete && each.naturalWidth)).length,
    words: inside.querySelector("article")?.innerText.split(/\\s+/).length ?? 0,
  };
  frame.remove();
  return said;
}
async function all(asked) {
  const found = [];
  for (const [page, width] of asked) found.push(await look(page, width));
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
}
all(ASKED);
</script>
"""


class Server:
    """The site at an address of this machine; `looker` is a page of ours beside it.

    found: what that page has sent, once it has.
    """

    looker = ""

    def __init__(self):
        self.found = queue.SimpleQueue()
        server = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                if self.path != "/looker":
                    return super().do_GET()
                body = server.looker.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                return self.wfile.write(body)

            def do_POST(self):
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
                server.found.put(json.loads(sent))

            def log_message(self, *_):
                pass

        made = functools.partial(Handler, directory=SITE)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@contextmanager
def browser(tmp_path, *words):
    """Have a browser, with all of its processes, for the time of the block."""
    common = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
              "--disable-background-networking", "--disable-breakpad", "--hide-scrollbars",
              f"--user-data-dir={tmp_path / 'profile'}")  # fmt: skip
    home = {
        **os.environ,
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    with open(tmp_path / "browser.log", "wb") as log:
        process = subprocess.Popen(
            [*PROCESSION, "run", BROWSER, *common, *words],  # which leaves nothing of it
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=home,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def test_every_page_fits(tmp_path, server):
    """Nothing is wider than the window, no picture is missing, and each page has its heading."""
    found = list(Path(SITE).rglob("index.html"))
    files = [path for path in found if 'http-equiv="refresh"' not in path.read_text()]
    pages = sorted(str(p.relative_to(SITE)) for p in files)
    assert len(pages) > 20
    assert {*SHOWN} <= {*pages}  # none is an old address
    asked = [(f"/{quote(page)}", width) for page in pages for width in WIDTHS.values()]
    server.looker = LOOKER.replace("ASKED", json.dumps(asked))
    with browser(tmp_path, f"{server.address}/looker"):
        found = server.found.get(timeout=90)
    assert len(found) == len(asked)
    wrong = [each for each in found if each["over"] > 0 or each["broken"]]
    assert wrong == []
    heights = {each["page"]: each["height"] for each in found if each["width"] == 1280}
    assert {page: height for page, height in heights.items() if height > MOST_HEIGHT} == {}
    assert [each for each in found if not each["heading"] or each["words"] < 30] == []


@pytest.mark.parametrize("name", WIDTHS)
def test_pictures(tmp_path, server, name):
    """Pages are drawn: a picture of each is more than an empty window."""
    kept = os.environ.get("PROCESSION_PICTURES")
    for page in SHOWN:
        file = tmp_path / f"{page.removesuffix('.html').replace('/', '_')}_{name}.png"
        words = (f"--screenshot={file}", f"--window-size={WIDTHS[name]},{HEIGHT}")
        with browser(tmp_path, *words, f"{server.address}/{page}") as process:
            assert process.wait(60) == 0, (tmp_path / "browser.log").read_text()
        assert file.stat().st_size > LEAST, page
        if kept:
            os.makedirs(kept, exist_ok=True)
            shutil.copy(file, kept)
