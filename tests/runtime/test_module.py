"""The module for web content, inside the app and outside."""

from playwright.async_api import Page

from latchkey.runtime.bridge_script import web_module
from tests.runtime.web import APP, ID, Web

MODULE = f"{APP}/push.js"


async def module_page(web: Web) -> Page:
    web.put(MODULE, web_module(), kind="text/javascript")
    web.put(f"{APP}/bare")
    page = await web.open(f"{APP}/bare")
    await page.evaluate("url => import(url).then(module => { window.push = module; })", MODULE)
    return page


async def test_the_module_finds_the_id_inside_the_app(web: Web) -> None:
    await web.app()
    page = await module_page(web)
    assert await page.evaluate("push.getPushPlayerId()") == ID
    assert await page.evaluate("Object.keys(push).sort()") == ["RegistrationError", "getPushPlayerId", "registerDevice"]


async def test_the_module_says_null_at_once_outside_the_app_and_touches_nothing(web: Web) -> None:
    page = await module_page(web)
    assert await page.evaluate("""async () => {
        const began = performance.now();
        const outside = await push.getPushPlayerId({timeout: 60000});
        window.bridge = {somebody: "else's"};
        return [outside, await push.getPushPlayerId(), bridge.somebody, performance.now() - began < 30000];
    }""") == [None, None, "else's", True]


async def test_the_module_gives_up_on_a_bridge_that_does_not_answer(web: Web) -> None:
    page = await module_page(web)
    assert await page.evaluate("""async () => {
        let asked = 0;
        Object.defineProperty(window, "bridge", {set() { asked++; }});
        return [await push.getPushPlayerId({timeout: 50}), asked];
    }""") == [None, 1]


async def test_the_module_registers_the_device_with_the_users_token(web: Web) -> None:
    await web.app()
    page = await module_page(web)
    async with page.expect_request(f"{APP}/api/devices") as asked:
        web.put(f"{APP}/api/devices", "{}", kind="application/json")
        done = await page.evaluate(
            "push.registerDevice({url: '/api/devices', token: 'tok', platform: 'android', language: 'de'})"
        )
    request = await asked.value
    assert done == ID
    assert request.method == "POST"
    assert (await request.all_headers())["authorization"] == "Bearer tok"
    assert request.post_data_json == {"player_id": ID, "platform": "android", "language": "de"}


async def test_the_module_tells_a_refusal_from_silence_and_never_sends_a_token_in_the_clear(web: Web) -> None:
    await web.app()
    page = await module_page(web)
    why = (
        "options => push.registerDevice({token: 'tok', ...options}).then(() => 'done', e => [e.name, e.status ?? null])"
    )
    assert await page.evaluate(why, {"url": "/nowhere"}) == ["RegistrationError", 404]
    assert await page.evaluate(why, {"url": "http://app.example/api/devices"}) == ["TypeError", None]
    await web.context.unroute_all()
    await web.context.route("**/*", lambda route: route.abort())
    assert await page.evaluate(why, {"url": "/api/devices"}) == ["RegistrationError", 0]


async def test_the_module_registers_nothing_where_there_is_no_id(web: Web) -> None:
    await web.app(None)
    page = await module_page(web)
    assert await page.evaluate("push.registerDevice({url: '/nowhere', token: 'tok'})") is None
