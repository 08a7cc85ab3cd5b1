"""Links from pages to files of the repository that are no pages.

MkDocs checks links between pages. A link such as `../scenarios/demo/demo.toml` leaves the folder of the pages: it
becomes a link to the repository, and the file must exist. README, ARCHITECTURE and CONTRIBUTING are no pages, but
their links are checked, too.
"""

import logging
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/vruntime/vruntime/blob/main/"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks")


def exists(source, folder, link):
    """The file that a link of `source` names, or None with a warning, which `--strict` makes an error."""
    file = (folder / link).resolve()
    if file.exists():
        return file
    log.warning("%s links to %s, which does not exist", source, link)
    return None


def on_pre_build(config):
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        for link in LINK.finditer((ROOT / name).read_text()):
            exists(name, ROOT, link[1])


def on_page_markdown(markdown, page, config, files):
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def outside(link):
        if (folder / link[1]).resolve().is_relative_to(docs):
            return link[0]
        file = exists(page.file.src_uri, folder, link[1])
        return f"]({REPOSITORY}{file.relative_to(ROOT)}{link[2] or ''})" if file else link[0]

    return LINK.sub(outside, markdown)
