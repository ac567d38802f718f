"""The page in a real browser: what its user does, and what is seen then."""

import base64
import os
import re
import time
from io import BytesIO
from types import SimpleNamespace

import pytest

from squircuit.cli.reading import schema_of
from squircuit.explore.app import QUESTIONS
from squircuit.explore.demos import demos
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.export import export
from squircuit.explore.shelf import Shelf
from squircuit.progress import steps

from .browser import CHROMIUM, FLAGS, Program

sync_api = pytest.importorskip("playwright.sync_api", reason="these tests need the package playwright")
expect = sync_api.expect
expect.set_options(timeout=20_000)  # of a busy machine

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install the package chromium"),
]
WIDE, PHONE = {"width": 1200, "height": 850}, {"width": 390, "height": 844}
QUICK = QUESTIONS["distributions"]
HALF = 244
"""The digit whose upper half is on the pictures."""
PICTURES = os.environ.get("PICTURES")
"""A folder for pictures of the page, which README and docs show: docs/images."""


def shelf_of(model, name):
    return Shelf.of(Exhibit(model, schema_of(model), name))


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def program(image_model, table_model, date_model, mixture):
    """The pages of some models, by name."""
    models = {"image": image_model, "table": table_model, "dates": date_model, "mixture": mixture}
    programs = {n: Program(shelf_of(m, f"{n}.safetensors")) for n, m in models.items()}
    yield programs
    for each in programs.values():
        each.end()


@pytest.fixture
def opened(chromium, program):
    """Opens a page; the test fails where the browser reports an error of the script, or a refused load."""
    contexts, errors = [], []

    def open_page(name, state="", **options):
        context = chromium.new_context(**({"viewport": WIDE} | options))
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        page.goto(program[name].address + state)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def settled(page):
    """All answers are there."""
    expect(page.get_by_role("status")).to_contain_text(re.compile("up to date|highest"))


def seen(page):
    """How many numbers of the image are seen, by what the page says of their likelihood."""
    found = re.search(r"of the (\d+) number", page.locator(".know").inner_text())
    return int(found[1]) if found else 0


def pixels(page, selector):
    """The colours of a canvas, (r, g, b) each; None where it is erased."""
    flat = page.locator(selector).first.evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    )
    return [tuple(flat[i : i + 3]) if flat[i + 3] else None for i in range(0, len(flat), 4)]


def until(page, holds):
    """Wait for what no locator tells."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    pytest.fail("it did not come to hold in ten seconds")


def moved(page, *places):
    """Press on a pixel of the 2×3 image, go over others and let go."""
    box = page.locator(".surface").bounding_box()
    at = [
        (box["x"] + (j + 0.5) * box["width"] / 3, box["y"] + (i + 0.5) * box["height"] / 2) for i, j in places
    ]
    page.mouse.move(*at[0])
    page.mouse.down()
    for place in at[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def test_the_mouse_erases_and_draws_and_completions_keep_what_is_seen(opened):
    page = opened("image")
    settled(page)
    assert seen(page) == 3  # the upper half of a sample
    page.get_by_text("Draw", exact=True).click()
    moved(page, (0, 0), (0, 2))
    expect(page.locator(".know")).to_contain_text("of the 3 numbers")
    assert pixels(page, ".surface")[:3] == [(0, 0, 0)] * 3
    page.get_by_text("Erase", exact=True).click()
    moved(page, (0, 1), (0, 2))
    expect(page.locator(".know")).to_contain_text("of the 1 number")
    settled(page)
    assert pixels(page, ".surface") == [(0, 0, 0)] + [None] * 5
    tiles = [pixels(page, f".grid button:nth-child({i}) canvas") for i in range(1, 7)]
    assert all(tile[0] == (0, 0, 0) and None not in tile for tile in tiles)


def test_touch_erases_as_the_mouse_does(opened):
    page = opened("image", has_touch=True, viewport=PHONE)
    settled(page)
    box = page.locator(".surface").bounding_box()
    page.touchscreen.tap(box["x"] + 5, box["y"] + 5)
    expect(page.locator(".know")).to_contain_text("of the 2 numbers")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_an_image_is_changed_by_keys_alone_and_every_move_has_words(opened):
    page = opened("image")
    settled(page)
    page.locator("#ink").focus()
    page.keyboard.press("Tab")
    surface = page.get_by_role("application")
    expect(surface).to_be_focused()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(surface).to_have_attribute("aria-label", re.compile("row 1, column 1: [012]"))
    page.keyboard.press("Space")
    expect(surface).to_have_attribute("aria-label", "Image, row 1, column 1: erased")
    expect(page.locator(".know")).to_contain_text("of the 2 numbers")


def test_sampling_again_changes_completions_and_one_can_be_adopted(opened):
    page = opened("image")
    settled(page)
    page.get_by_role("button", name="Erase all").click()
    expect(page.locator("#likelihood")).to_have_text("Nothing is seen")
    before = [pixels(page, f".grid button:nth-child({i}) canvas") for i in range(1, 7)]
    page.get_by_role("button", name="Sample again").click()
    until(page, lambda: before != [pixels(page, f".grid button:nth-child({i}) canvas") for i in range(1, 7)])
    after = pixels(page, ".grid button:nth-child(1) canvas")
    page.get_by_role("button", name="Go on with completion 1").click()
    expect(page.locator(".know")).to_contain_text("of the 6 numbers")
    assert pixels(page, ".surface") == after


def test_the_address_holds_the_image_and_goes_back(opened):
    page = opened("image")
    settled(page)
    moved(page, (0, 0), (0, 0))
    expect(page.locator(".know")).to_contain_text("of the 2 numbers")
    image, address = pixels(page, ".surface"), page.url
    page.get_by_role("link", name="Model").click()
    expect(page.get_by_text("log Z")).to_be_visible()
    page.go_back()
    expect(page.locator(".know")).to_contain_text("of the 2 numbers")
    again = opened("image", "#" + address.partition("#")[2])
    settled(again)
    assert pixels(again, ".surface") == image


def test_a_picture_is_fitted_dropped_as_well_and_another_file_is_refused_on_the_page(opened):
    page = opened("image")
    settled(page)
    page.locator("#file").set_input_files(
        {"name": "notes.png", "mimeType": "image/png", "buffer": b"no image"}
    )
    expect(page.get_by_role("alert")).to_contain_text("notes.png: no image that the browser can read.")
    page.locator("#file").set_input_files({"name": "own.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator(".know")).to_contain_text("of the 6 numbers")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert pixels(page, ".surface") == [(255, 255, 255)] + [(0, 0, 0)] * 5
    page.get_by_role("button", name="Erase all").click()
    expect(page.locator("#likelihood")).to_have_text("Nothing is seen")
    dropped = page.evaluate_handle(
        """(bytes) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
            return data;
        }""",
        list(png()),
    )
    page.dispatch_event(".surface", "drop", {"dataTransfer": dropped})
    expect(page.locator(".know")).to_contain_text("of the 6 numbers")


def png():
    """A picture of 3×2 pixels, black but for a white corner."""
    image = pytest.importorskip("PIL.Image", reason="makes a picture with pillow")
    made, content = image.new("L", (3, 2)), BytesIO()
    made.putpixel((0, 0), 255)
    made.save(content, "PNG")
    return content.getvalue()


def test_classes_are_listed_and_one_can_be_chosen_by_keys(opened):
    page = opened("mixture")
    settled(page)
    chosen = page.locator(".share", has_text="second")
    chosen.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".share[aria-pressed=true]")).to_have_text(re.compile("second"))
    assert "class=second" in page.url


def test_a_slider_moves_all_other_distributions_and_forgetting_undoes_it(opened):
    page = opened("table")
    settled(page)
    height = page.locator(".card", has_text="height")
    group = page.locator(".card", has=page.get_by_text("group", exact=True))
    before = group.inner_text()
    slider = height.get_by_role("slider")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    expect(height.get_by_text("set to")).to_be_visible()
    expect(page.locator("#total")).to_contain_text("log p of what is set")
    expect(group).not_to_have_text(before)
    assert "set.height=" in page.url
    page.get_by_role("button", name="height is unknown").click()
    expect(page.locator("#total")).to_contain_text("Nothing is set")
    expect(height.get_by_role("spinbutton")).to_be_focused()
    assert group.inner_text() == before


def test_a_menu_and_a_number_by_keys_alone(opened):
    page = opened("table")
    settled(page)
    page.get_by_role("combobox", name="sex").focus()
    page.keyboard.press("m")
    expect(page.get_by_role("status")).to_contain_text("1 of 4 columns set")
    page.get_by_role("spinbutton", name="children").focus()
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("2 of 4 columns set")
    assert "set.sex=m" in page.url
    assert "set.children=2" in page.url


def test_a_number_out_of_range_is_one_line_on_the_page_and_the_next_is_welcome(opened):
    page = opened("table")
    settled(page)
    number = page.get_by_role("spinbutton", name="children")
    number.fill("77")
    number.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("77 is not one of the integers 0 to")
    number.fill("1")
    number.press("Enter")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("status")).to_contain_text("1 of 4 columns set")


def test_rows_are_sampled_as_a_table_and_copied(opened):
    page = opened("table", "#set.group=b", permissions=["clipboard-read", "clipboard-write"])
    settled(page)
    page.get_by_role("button", name="Sample rows").click()
    table = page.get_by_role("region", name="Sampled rows").get_by_role("row")
    expect(table).to_have_count(11)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_contain_text("Copied")
    lines = page.evaluate("() => navigator.clipboard.readText()").split("\n")
    assert lines[0].split("\t") == ["group", "children", "height", "sex"]
    assert [line.split("\t")[0] for line in lines[1:]] == ["b"] * 10


def test_a_pasted_row_is_scored_and_a_wrong_one_is_refused(opened):
    page = opened("table")
    settled(page)
    pasted, score = page.get_by_label("Score a row"), page.get_by_role("button", name="Score")
    pasted.fill("a; 0; 2.3; f")
    score.click()
    expect(page.locator("tr.odd")).to_contain_text("height")
    pasted.fill("a; 0")
    score.click()
    expect(page.get_by_role("alert")).to_contain_text("2 cells, but the model has 4 columns")


def test_a_date_is_set_and_cleared_as_one_and_another_column_follows(opened):
    page = opened("dates")
    settled(page)
    card, share = page.locator(".card.date"), page.locator(".card", has_text="open").locator(".share").last
    expect(card.get_by_role("img", name=re.compile("^Distribution of day"))).to_have_count(4)
    before = share.inner_text()
    field = page.get_by_role("textbox", name="day")
    field.fill("2024-02-10")
    field.press("Tab")
    expect(page.get_by_role("status")).to_contain_text("1 of 2 columns set")
    assert "set.day=2024-02-10" in page.url
    expect(card).to_contain_text("Sat; the others say")
    until(page, lambda: share.inner_text() != before)
    page.get_by_role("button", name="Sample rows").click()
    expect(page.get_by_role("region", name="Sampled rows")).to_contain_text("10.02.2024")
    field.fill("2023-02-10")
    expect(page.get_by_role("alert")).to_contain_text("its year is 2023")
    page.get_by_role("button", name="day is unknown").click()
    expect(page.get_by_role("status")).to_contain_text("0 of 2 columns set")
    assert (field.input_value(), share.inner_text()) == ("", before)
    field.press_sequentially("0231")
    page.get_by_label("Score a row").focus()
    expect(page.get_by_role("alert")).to_have_text(re.compile("day: no such date"))


def test_two_columns_are_a_heat_map_given_what_is_set(opened):
    page = opened("table", "#page=pair&x=height&y=group&set.sex=m")
    settled(page)
    expect(page.get_by_text("given sex = m")).to_be_visible()
    heat = page.get_by_role("img", name=re.compile("Joint distribution of height and group"))
    heat.hover()
    expect(page.get_by_text(re.compile("height .*, group b: density"))).to_be_visible()
    page.get_by_label("upwards").select_option("height")
    expect(page.get_by_role("alert")).to_contain_text("same column")
    page.get_by_label("across").select_option("sex")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_the_model_is_shown_with_log_z_properties_and_its_circuit(opened):
    page = opened("table", "#page=model")
    expect(page.get_by_role("cell", name="unitary", exact=True)).to_be_visible()
    expect(page.get_by_text("exact", exact=False).first).to_be_visible()
    expect(page.get_by_role("img", name="The layers of the circuit")).to_be_visible()


def test_a_page_waits_for_a_program_that_has_ended_and_goes_on_when_it_is_back(opened, program, image_model):
    served = program["mine"] = Program(shelf_of(image_model, "mine"))
    page = opened("mine")
    settled(page)
    served.end()
    page.get_by_role("button", name="Erase all").click()
    expect(page.get_by_role("alert")).to_contain_text("The program does not answer")
    program["mine"] = Program(shelf_of(image_model, "mine"), served.port)
    expect(page.locator("#likelihood")).to_have_text("Nothing is seen")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_long_answer_tells_how_far_it_is_can_be_cancelled_and_asked_again(opened, monkeypatch):
    def slow(exhibit, question):
        for _ in steps(range(2000), [1.0] * 2000):
            time.sleep(0.005)
        return QUICK(exhibit, question)

    monkeypatch.setitem(QUESTIONS, "distributions", slow)
    page = opened("table")
    expect(page.get_by_role("progressbar", name="How far the answer is")).to_be_visible()
    until(page, lambda: 0 < page.locator("progress").evaluate("one => one.value") < 1)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.get_by_role("status")).to_have_text("Cancelled.")
    monkeypatch.setitem(QUESTIONS, "distributions", QUICK)
    page.get_by_role("combobox", name="sex").select_option("m")
    expect(page.get_by_role("status")).to_contain_text("1 of 4 columns set")


def test_of_many_changes_in_a_row_the_last_one_is_what_is_seen(opened):
    page = opened("table")
    settled(page)
    slider = page.locator(".card", has_text="height").get_by_role("slider")
    slider.focus()
    for key in ["ArrowRight", "ArrowLeft"] * 10 + ["ArrowRight"] * 5:
        page.keyboard.press(key)
    shown = page.get_by_role("spinbutton", name="height")
    until(page, lambda: f"set.height={shown.input_value()}" in page.url and shown.input_value())
    expect(page.locator(".card", has_text="height").get_by_text("set to")).to_contain_text(
        shown.input_value()
    )


def test_an_exported_page_is_a_file_that_needs_no_program(opened, program, mixture, table_model, tmp_path):
    for name, model in (("mixture", mixture), ("table", table_model)):
        export(Exhibit(model, schema_of(model), name), file := tmp_path / f"{name}.html")
        program[f"{name} file"] = SimpleNamespace(address=file.as_uri(), end=lambda: None)
    page = opened("mixture file")
    settled(page)
    moved(page, (0, 0), (0, 0))
    expect(page.locator(".know")).to_contain_text("of the 2 numbers")
    page.locator(".share", has_text="second").click()
    settled(page)
    page = opened("table file")
    settled(page)
    page.get_by_role("combobox", name="sex").select_option("m")
    expect(page.get_by_role("status")).to_contain_text("1 of 4 columns set")
    page.get_by_role("button", name="Sample rows").click()
    expect(page.get_by_role("region", name="Sampled rows").get_by_role("row")).to_have_count(11)
    page.get_by_role("link", name="Two columns").click()
    expect(page.get_by_text("given sex = m")).to_be_visible()
    page.get_by_role("link", name="Model").click()
    expect(page.get_by_role("cell", name="unitary", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("name", "state", "scheme"),
    [
        ("image", "", "light"),
        ("table", "", "dark"),
        ("dates", "", "light"),
        ("table", "#page=pair", "light"),
        ("table", "#page=model", "dark"),
    ],
)
def test_on_a_phone_nothing_is_wider_than_it_and_every_control_has_a_name(opened, name, state, scheme):
    page = opened(name, state, viewport=PHONE, color_scheme=scheme)
    page.locator("#status:not(:empty), .circuit svg").first.wait_for(state="attached")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea, canvas, svg")]
            .filter((one) => !one.closest("button") || one.localName === "button")
            .filter((one) => !one.getAttribute("aria-label") && !one.labels?.length
                 && !one.textContent.trim())
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground)[:3]))
    assert brightness > 600 if scheme == "light" else brightness < 150


@pytest.fixture(scope="module")
def shown(program):
    """The models to try without a file."""
    served = Program(demos())
    program["demos"] = served
    return served


def half_a_digit(number=HALF):
    """A digit of scikit-learn of which the lower half is erased, as the address has it."""
    row = pytest.importorskip("sklearn.datasets").load_digits().data[number]
    kept = b"".join(bytes([1, round(255 * value / 16)]) for value in row[:32]) + bytes(64)
    return base64.urlsafe_b64encode(kept).decode().rstrip("=")


@pytest.mark.skipif(PICTURES is None, reason="pictures of the page are made on demand: PICTURES=docs/images")
@pytest.mark.parametrize(
    ("name", "state", "options"),
    [
        ("explore-image", "#model=digits&pixels=HALF", {"viewport": {"width": 1200, "height": 830}}),
        ("explore-table", "#model=iris&set.petal+length=4.8", {"viewport": {"width": 1200, "height": 840}}),
        (
            "explore-pair",
            "#model=iris&page=pair&x=petal+length&y=petal+width",
            {"viewport": {"width": 760, "height": 800}},
        ),
        ("explore-phone", "#model=digits&pixels=HALF", {"viewport": PHONE, "color_scheme": "dark"}),
    ],
)
def test_pictures_of_the_page_for_readme_and_docs(opened, shown, name, state, options):
    page = opened("demos", state.replace("HALF", half_a_digit()), **options)
    page.set_default_timeout(240_000)
    page.locator("#status:not(:empty)").wait_for()
    expect(page.locator("#progress")).to_be_hidden()
    page.wait_for_timeout(500)
    page.evaluate("() => document.activeElement.blur()")
    page.screenshot(path=f"{PICTURES}/{name}.png")
