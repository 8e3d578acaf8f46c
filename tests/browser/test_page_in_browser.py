"""The report's page in headless Chromium: it renders from disk, filters, sorts, opens runs, and asks the network nothing."""

import json
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import run_folders
from hawkeye_bench import page, results
from synthetic_runs import experiment

pytestmark = pytest.mark.clients

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing: pip install selenium")

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WORKLOADS, REPEATS = 6, 2
PHONE, TABLET, DESKTOP = 390, 768, 1280


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator["webdriver.Chrome"]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium is missing: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_script_timeout(60)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    runs = run_folders.on_workloads(experiment(3, WORKLOADS, REPEATS, effect=1.4, success=(0.9, 0.7), model="m"))
    run_folders.write(out, runs, tries=14)
    page.write(out)
    return out


@pytest.fixture
def opened(browser, folder):
    """The page, opened afresh on a desktop; afterwards its console is empty and nothing but itself was asked for."""
    browser.get_log("browser"), browser.get_log("performance")
    size(browser, DESKTOP)
    go(browser, folder)
    yield browser
    assert browser.get_log("browser") == []
    asked = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    urls = [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
    assert {urlsplit(url).path for url in urls} == {str(folder / page.NAME)}


def go(browser, folder, place=""):
    browser.get("about:blank")
    browser.get(f"file://{folder / page.NAME}{place}")


def size(browser, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < DESKTOP}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait(browser, condition):
    """Until a JavaScript condition holds; the driver's time limit ends it if it never does."""
    browser.execute_async_script(
        f"const done = arguments[0]; (function look() {{ ({condition}) ? done() : requestAnimationFrame(look); }})();"
    )


def run_page(browser, folder, key):
    """Opens a run's page and waits until it is unpacked."""
    go(browser, folder, f"#run={key}")
    wait(browser, "document.getElementById('run').firstElementChild")


def texts(browser, selector):
    """Of the elements that are shown."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"
        ".map((one) => one.textContent.trim());"
    )
    return browser.execute_script(script, selector)


def choose(browser, field, value):
    script = (
        "const field = document.querySelector(`#filters [name=${arguments[0]}]`); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    browser.execute_script(script, field, value)


def test_it_shows_the_effect_and_draws_every_figure(opened, folder):
    found = results.read(folder)
    assert texts(opened, "#headline .big b") == [f"{found.effect.geomean:.3f}x"]
    drawn = opened.execute_script(
        "return [...document.querySelectorAll('.wide svg, .small svg')].map((one) => {"
        " const box = one.getBoundingClientRect(); return [box.width, box.height, one.querySelectorAll('path,circle,rect').length]; })"
    )
    assert len(drawn) >= 8 + WORKLOADS
    assert all(width > 200 and height > 80 and marks > 0 for width, height, marks in drawn)


def test_filters_hold_for_the_table_and_for_the_lines(opened, folder):
    runs = results.read(folder).runs
    assert len(texts(opened, "#run-table tbody tr")) == len(runs)
    choose(opened, "condition", "taxonomy")
    choose(opened, "status", "correct")
    expected = [one for one in runs if (one.condition, one.status) == ("taxonomy", "correct")]
    assert 0 < len(expected) < len(runs)
    assert texts(opened, "#shown") == [f"{len(expected)} of {len(runs)} runs"]
    assert len(texts(opened, "#run-table tbody tr")) == len(expected)
    shown = opened.execute_script(
        "return [...document.querySelectorAll('#every-run a')].filter((one) => one.checkVisibility()).map((one) => one.dataset.key)"
    )
    assert sorted(shown) == sorted(f"{one.workload}/{one.condition}/{one.repeat}" for one in expected)
    choose(opened, "workload", runs[0].workload.lower())
    assert texts(opened, "#every-run .small > b") == [runs[0].workload]
    opened.execute_script("document.querySelector('#filters button').click()")
    wait(opened, f"document.getElementById('shown').textContent.startsWith('{len(runs)} ')")
    assert len(texts(opened, "#run-table tbody tr")) == len(runs)


def test_a_heading_sorts_numbers_as_numbers_and_leaves_what_is_unknown_last(opened, folder):
    runs = results.read(folder).runs
    up = [f"{value:.3f}x" for value in sorted(one.speedup for one in runs if one.speedup)]
    unknown = ["-"] * (len(runs) - len(up))
    assert unknown
    click = "document.querySelectorAll('#run-table th button')[2].click()"
    opened.execute_script(click)
    assert texts(opened, "#run-table td:nth-child(3)") == up + unknown
    opened.execute_script(click)
    assert texts(opened, "#run-table td:nth-child(3)") == up[::-1] + unknown
    tokens = sorted(one.tokens for one in runs)
    assert tokens != sorted(tokens, key=str)
    opened.execute_script("document.querySelectorAll('#run-table th button')[10].click()")
    assert texts(opened, "#run-table td:nth-child(11)") == [f"{one:,}" for one in tokens]


def test_a_runs_page_opens_by_its_link_and_goes_back(opened, folder):
    one = next(one for one in results.read(folder).runs if one.status == "correct")
    key = f"{one.workload}/{one.condition}/{one.repeat}"
    opened.execute_script("document.querySelector(`#run-table a[href='#run=${arguments[0]}']`).click()", key)
    wait(opened, "document.querySelector('#run h1')")
    assert texts(opened, "#run h1") == [f"{one.workload}, {one.condition}, repeat {one.repeat}"]
    assert texts(opened, "#run .big b") == [f"{one.speedup:.3f}x measured"]
    assert texts(opened, "#overview h1") == []
    kernels = list((folder / key / "kernels").glob("*.py"))
    assert len(texts(opened, "#run details.version")) == len(kernels)
    added = texts(opened, "#run details.version[open] .diff .added")
    assert any(line.startswith("+") for line in added)
    opened.execute_script("document.querySelector('#run nav a').click()")
    wait(opened, "!document.querySelector('#run h1')")
    assert texts(opened, "#overview h1") and not texts(opened, "#run h1")


def test_a_run_that_is_not_there_says_so(opened, folder):
    run_page(opened, folder, "nowhere/none/1")
    assert texts(opened, "#run")[0].startswith("This file has no such run.")


@pytest.mark.parametrize("width", [PHONE, 360, TABLET])
def test_nothing_is_wider_than_the_screen_and_no_text_smaller_than_12_px(opened, folder, width):
    size(opened, width)
    correct = next(one for one in results.read(folder).runs if one.status == "correct")
    for place in ("", f"{correct.workload}/{correct.condition}/{correct.repeat}"):
        if place:
            run_page(opened, folder, place)
        else:
            go(opened, folder)
        opened.execute_script("for (const one of document.querySelectorAll('details')) one.open = true;")
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        smallest = opened.execute_script(
            "return Math.min(...[...document.querySelectorAll('main *')].filter((one) => one.checkVisibility() &&"
            " [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())).map((one) => {"
            " const svg = one.closest('svg[viewBox]');"
            " const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;"
            " return parseFloat(getComputedStyle(one).fontSize) * scale; }))"
        )
        assert smallest >= 11.9


def test_dark_and_light_are_the_readers_own(opened, folder):
    script = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        seen.add(opened.execute_script(script))
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(seen) == 2
