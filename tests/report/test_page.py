"""The HTML report in a real browser: silent, self-contained, usable with and without scripts."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.report.writing import ReportFiles, write_report
from tests.recording.blocks import changed
from tests.report.browser import Browser, chromium
from tests.report.synthetic import clean, grid, interleaved, verdict

pytestmark = pytest.mark.process

needs_browser = pytest.mark.skipif(
    chromium() is None and not os.environ.get("CI"),
    reason="no chromium here (apt-get install chromium); it is required under CI",
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> $x$ `a` \x1b[31m|\n## no"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ReportFiles:
    rows = interleaved(grid(temperatures=(0.0,), replicates=1))
    rows[0] |= {"status": "failed", "reason": HOSTILE, "flags": "x<b>y"}
    journal = [{"kind": "block_failed", "block_id": "ar-l0", "cause": HOSTILE, "hint": HOSTILE,
                "pattern": "x", "evidence": [HOSTILE, "```", "\ud800"]}]  # fmt: skip
    manifest = clean().manifest
    manifest.name = HOSTILE
    blocks = clean(rows).blocks
    blocks["ar-l0"] = changed(blocks["ar-l0"], notices=[HOSTILE])
    evidence = clean(
        rows, journal=journal, manifest=manifest, blocks=blocks,
        verdicts=[verdict(HOSTILE, integrity=[{"name": HOSTILE, "finding": HOSTILE}])],
    )  # fmt: skip
    return write_report([evidence], tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(files: ReportFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(files.html)
        yield browser


@needs_browser
def test_nothing_is_said_on_the_console_and_nothing_is_requested(
    page: Browser, files: ReportFiles
) -> None:
    assert page.console == []
    assert [url for url in page.requests if not url.startswith("data:")] == [
        files.html.resolve().as_uri()
    ]


@needs_browser
def test_text_from_servers_stays_text(page: Browser) -> None:
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, object, embed, link[href^=http]').length"
        )
        == 0
    )
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.body.textContent.includes('onerror=alert(2)')") is True


@needs_browser
def test_a_click_on_a_head_sorts_by_numbers_and_a_second_one_turns_it(page: Browser) -> None:
    script = """(() => {
      const box = document.querySelector('#r0-trials .table');
      const heads = [...box.querySelectorAll('thead th')];
      const column = heads.findIndex((head) => head.textContent === 'tok/s');
      const values = () => [...box.querySelectorAll('tbody tr')]
        .map((row) => parseFloat(row.cells[column].textContent.replace(/,/g, '')))
        .filter((value) => !Number.isNaN(value));
      const rising = (list) => list.every((v, i) => i === 0 || list[i - 1] <= v);
      heads[column].querySelector('button').click();
      const up = rising(values());
      heads[column].querySelector('button').click();
      return [up, rising(values().reverse()), heads[column].getAttribute('aria-sort')];
    })()"""

    assert page.evaluate(script) == [True, True, "descending"]


@needs_browser
def test_the_filter_keeps_rows_that_hold_all_words(page: Browser) -> None:
    script = """(() => {
      const section = document.querySelector('#r0-trials');
      const input = section.querySelector('input');
      input.value = 'ddtree l1';
      input.dispatchEvent(new Event('input'));
      const rows = [...section.querySelectorAll('tbody tr')].filter((row) => !row.hidden);
      const told = section.querySelector('[role=status]').textContent;
      input.value = '';
      input.dispatchEvent(new Event('input'));
      return [rows.length, rows.every((row) => row.textContent.includes('ddtree')), told];
    })()"""

    assert page.evaluate(script) == [3, True, "3 of 18 rows"]


@needs_browser
def test_a_plot_is_enlarged_in_a_dialog_that_closes(page: Browser) -> None:
    script = """(() => {
      document.querySelector('figure .zoom').click();
      const open = [document.querySelector('dialog').open,
                    document.querySelectorAll('dialog svg').length];
      document.querySelector('dialog').close();
      return open;
    })()"""

    assert page.evaluate(script) == [True, 1]


@needs_browser
def test_the_page_is_accessible_by_structure(page: Browser) -> None:
    script = """(() => {
      const all = (query) => [...document.querySelectorAll(query)];
      const ids = all('[id]').map((one) => one.id);
      return {
        h1: all('h1').length,
        lang: document.documentElement.lang,
        unnamed: all('svg').filter((one) => !one.getAttribute('aria-label')).length,
        uncaptioned: all('table').filter((one) => !one.caption).length,
        unscoped: all('th:not([scope])').length,
        unlabelled: all('input').filter((one) => !one.labels.length).length,
        twice: ids.filter((id, i) => ids.indexOf(id) !== i),
        dead: all('a[href^="#"]').map((one) => one.hash.slice(1))
          .filter((id) => !document.getElementById(id)),
        skipped: all('h1, h2, h3, h4').map((one) => +one.tagName[1])
          .some((level, i, levels) => i > 0 && level - levels[i - 1] > 1),
        wide: document.documentElement.scrollWidth > innerWidth,
      };
    })()"""

    assert page.evaluate(script) == {
        "h1": 1, "lang": "en", "unnamed": 0, "uncaptioned": 0, "unscoped": 0, "unlabelled": 0,
        "twice": [], "dead": [], "skipped": False, "wide": False,
    }  # fmt: skip


CONTRAST = """(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const probes = ['body', '.kind', '.rows', 'a', 'figcaption', 'caption', '.intro', 'code'];
  return Math.min(...probes.map((query) => document.querySelector(query)).filter(Boolean)
    .map((one) => light(getComputedStyle(one).color))
    .map((ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)));
})()"""


@needs_browser
def test_text_has_the_contrast_of_wcag_aa_in_both_themes(
    files: ReportFiles, tmp_path: Path
) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(files.html)
        light = browser.evaluate(CONTRAST)
        browser.dark()
        dark = browser.evaluate(CONTRAST)

    assert light >= 4.5
    assert dark >= 4.5


@needs_browser
def test_without_scripts_every_table_and_plot_is_there(files: ReportFiles, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", scripts=False) as browser:
        browser.open(files.html)
        assert browser.console == []

    text = files.html.read_text(encoding="utf-8")
    assert text.count("<tbody>") >= 4
    assert text.count('<svg role="img"') >= 6


def test_the_markdown_report_escapes_what_servers_say(files: ReportFiles) -> None:
    text = files.markdown.read_text(encoding="utf-8")
    outside = re.sub(r"^  (`{3,})text\n.*?^  \1$", "", text, flags=re.MULTILINE | re.DOTALL)

    assert "<script>" not in outside
    assert "\x1b" not in text
    assert "\n## no" not in text


def test_every_picture_is_written_in_both_themes_as_svg_and_png(files: ReportFiles) -> None:
    names = {path.name for path in (files.folder / "plots").iterdir()}
    light = {name for name in names if "-light." in name}

    assert light
    assert {name.replace("-light.", "-dark.") for name in light} | light == names


def test_markdown_refers_only_to_files_that_were_written(files: ReportFiles) -> None:
    references = re.findall(r"!\[.*?\]\((.*?)\)", files.markdown.read_text(encoding="utf-8"))

    assert references
    assert all((files.folder / name).exists() for name in references)
