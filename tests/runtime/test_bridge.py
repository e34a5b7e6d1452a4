"""The bridge in real Chromium, as web content uses it."""

from typing import Any

import pytest

from latchkey.runtime.bridge_script import BridgeNames, bridge_script
from tests.runtime.web import APP, EARLY, ID, Web

OTHER = "https://ads.example"
STRICT = "default-src 'none'; script-src 'nonce-ours'; base-uri 'none'; require-trusted-types-for 'script'"


async def test_it_answers_the_first_script_of_every_page_at_once(web: Web) -> None:
    await web.app()
    web.put(f"{APP}/next", script=EARLY)
    page = await web.open()
    assert await page.evaluate("[before === undefined, early]") == [True, ID]
    await page.reload()
    assert await page.evaluate("[before === undefined, early]") == [True, ID]
    await page.goto(f"{APP}/next")
    assert await page.evaluate("early") == ID


async def test_without_a_player_id_the_answer_is_null(web: Web) -> None:
    await web.app(None)
    assert await (await web.open()).evaluate("early === null") is True


async def test_asking_twice_in_a_row_answers_twice(web: Web) -> None:
    await web.app()
    page = await web.open()
    assert await page.evaluate("""() => {
        const seen = [];
        for (let i = 0; i < 3; i++) {
            delete window.pushplayerid;
            window.bridge = "getpushplayerid://";
            seen.push(pushplayerid);
        }
        return seen;
    }""") == [ID, ID, ID]


@pytest.mark.parametrize("player_id", [ID, None])
async def test_helpers_that_delete_the_variable_after_asking_get_it_all_the_same(
    web: Web, player_id: str | None
) -> None:
    await web.app(player_id)
    page = await web.open()
    answer = await page.evaluate("""async () => {
        window.bridge = "getpushplayerid://";
        delete window.pushplayerid;
        const gone = !("pushplayerid" in window);
        for (let i = 0; i < 100; i++) {
            await null;
            if (window.pushplayerid !== undefined) return [gone, i, window.pushplayerid];
        }
    }""")
    assert answer == [True, 0, player_id]


async def test_it_works_under_a_strict_content_policy(web: Web) -> None:
    await web.app()
    web.put(f"{APP}/strict", script=EARLY, content_security_policy=STRICT)
    page = await web.open(f"{APP}/strict")
    assert await page.evaluate("early") == ID
    assert web.warnings == []


async def test_frames_and_pages_of_other_origins_have_no_bridge(web: Web) -> None:
    await web.app()
    web.put(f"{OTHER}/", script=EARLY)
    web.put("https://app.example:8443/", script=EARLY)
    web.put("http://app.example/", script=EARLY)
    frames = f"<iframe src={OTHER}/></iframe><iframe sandbox=allow-scripts srcdoc='<p>x'></iframe>"
    web.put(f"{APP}/frames", f"{frames}<iframe src={APP}/></iframe><iframe srcdoc='<p>y'></iframe><iframe></iframe>")
    page = await web.open(f"{APP}/frames")
    await page.wait_for_load_state("load")
    found = [
        await frame.evaluate(
            "[Object.getOwnPropertyDescriptor(window, 'bridge')?.set !== undefined, typeof pushplayerid]"
        )
        for frame in page.main_frame.child_frames
    ]
    own, foreign = [True, "undefined"], [False, "undefined"]
    # Frames without an address are part of the page that made them, unless they are sandboxed.
    assert found == [foreign, foreign, [True, "string"], own, own]
    for elsewhere in (f"{OTHER}/", "https://app.example:8443/", "http://app.example/"):
        page = await web.open(elsewhere)
        assert await page.evaluate("[bridge, typeof early]") == ["getpushplayerid://", "undefined"]


async def test_other_values_stay_what_they_are(web: Web) -> None:
    await web.app()
    page = await web.open()
    assert (
        await page.evaluate("""() => {
        const seen = [];
        for (const value of [() => 7, {a: 1}, 12, null, undefined, "plain words", "", Symbol.iterator]) {
            window.bridge = value;
            window.bridge = "getpushplayerid://";
            seen.push(Object.is(window.bridge, value));
        }
        return seen;
    }""")
        == [True] * 8
    )


async def test_an_unknown_command_is_ignored_with_a_warning(web: Web) -> None:
    await web.app()
    page = await web.open()
    assert await page.evaluate("""() => {
        window.bridge = "mine";
        for (const name of ["vibrate", "__proto__", "constructor", "toString"]) window.bridge = `${name}://`;
        return [window.bridge, window.vibrate === undefined, pushplayerid];
    }""") == ["mine", True, ID]
    assert web.warnings[0] == "warning: This app does not know the command vibrate://"
    assert len(web.warnings) == 4


async def test_a_command_is_known_as_browsers_know_schemes(web: Web) -> None:
    await web.app()
    web.put(f"{APP}/bare")
    page = await web.open(f"{APP}/bare")
    for command in ("getpushplayerid://", "GetPushPlayerId://", "getpushplayerid://?fresh=1", " getpushplayerid://"):
        ask = "command => { window.bridge = command; return pushplayerid; }"
        assert await page.evaluate(ask, command) == ID
        await page.evaluate("Promise.resolve().then(() => { delete window.pushplayerid; })")


async def test_the_names_can_be_other_ones_and_several(web: Web) -> None:
    commands = {"getpushplayerid": "pushplayerid", "getonesignalplayerid": "onesignalplayerid"}
    await web.app(names=BridgeNames(("bridge", "native"), commands))
    web.put(f"{APP}/bare")
    page = await web.open(f"{APP}/bare")
    assert await page.evaluate("""() => {
        window.native = "getonesignalplayerid://";
        const first = [typeof pushplayerid, onesignalplayerid];
        window.bridge = "getpushplayerid://";
        return [...first, pushplayerid];
    }""") == ["undefined", ID, ID]


async def test_a_script_that_was_put_in_twice_works_and_the_later_id_counts(web: Web) -> None:
    await web.app(None)
    await web.app(ID)
    assert await (await web.open()).evaluate("early") == ID


async def test_a_page_that_has_a_variable_of_that_name_still_runs(web: Web) -> None:
    await web.app()
    for declared in ("var bridge = 1", "let bridge = 1", "function bridge() {}", "class bridge {}"):
        web.put(f"{APP}/own", script=f"{declared}; window.ran = true;")
        page = await web.open(f"{APP}/own")
        assert await page.evaluate("ran") is True, declared


NASTY = (
    '"); window.hacked = 1; ("',
    "</script><script>window.hacked = 1</script>",
    "a\u2028window.hacked=1\u2029b",
    "\\",
    "\ud800",
    "🔔",
)


async def test_no_id_can_become_a_program(web: Web) -> None:
    inline = "".join(f"<script>{bridge_script(id, [APP])}</script>" for id in NASTY)
    web.put(f"{APP}/inline", f"{inline}<p>end")
    page = await web.open(f"{APP}/inline")
    assert await page.evaluate("document.querySelectorAll('script').length") == 1 + len(NASTY)
    for id in NASTY:
        await page.evaluate(bridge_script(id, [APP]))
        read: Any = await page.evaluate("""() => {
            window.bridge = "getpushplayerid://";
            return [typeof hacked, [...pushplayerid].map(sign => sign.codePointAt(0))];
        }""")
        assert read == ["undefined", [ord(sign) for sign in id]]


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("http://app.example", "only https"),
        ("https://user@app.example", "not the address"),
        ("null", "not the address"),
        ("*", "not the address"),
        ("file:///etc/passwd", "not the address"),
        ("about:blank", "not the address"),
    ],
)
def test_only_addresses_of_web_apps_can_have_the_bridge(url: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        bridge_script(ID, [url])


def test_the_bridge_needs_an_origin_and_valid_names() -> None:
    with pytest.raises(ValueError, match="at least one origin"):
        bridge_script(ID, [])
    for name in ("a b", "", "1a", "a;b", "__proto__", "a-b"):
        with pytest.raises(ValueError, match="cannot be"):
            BridgeNames((name,))
    for command in ("", "A", "a:", "a b"):
        with pytest.raises(ValueError, match="cannot be a command"):
            BridgeNames(commands={command: "answer"})
