// What a server does with the JavaScript client, against a running service. The test that starts it has bought `pro` for the
// user, created the friend, and passes a webhook as the service signs it.
import assert from "node:assert/strict";
import { Latchkey, LatchkeyError, NotVerifiedError, verifyWebhook } from "../../clients/javascript/index.js";

const { baseUrl, apiKey, projectId, user, friend, webhook } = JSON.parse(process.env.STORY);
const latchkey = new Latchkey({ baseUrl, apiKey, projectId });

// Reads.
assert.equal(await latchkey.has(user, "pro"), true);
assert.equal(await latchkey.has(user, "team"), false);
assert.equal(await latchkey.has("nobody at all", "pro"), false);
const customer = await latchkey.customer(user);
assert.equal(customer.id, user);
assert.deepEqual(customer.active_entitlements.items.map((one) => one.entitlement_id), ["pro"]);
const subscriber = await latchkey.subscriber(user);
assert.equal(subscriber.entitlements.pro.product_identifier, "pro_monthly");
assert.equal(subscriber.subscriptions.pro_monthly.store, "test_store");

// Grants.
await latchkey.grant(user, "team", { expiresAt: new Date(Date.now() + 60_000) });
assert.equal(await latchkey.has(user, "team"), true);
const held = [];
for await (const one of latchkey.activeEntitlements(user)) held.push(one.entitlement_id);
assert.deepEqual(held.sort(), ["pro", "team"]);
await latchkey.revoke(user, "team");
assert.equal(await latchkey.has(user, "team"), false);
const granted = await latchkey.grant(friend, "pro");
assert.ok(granted.active_entitlements.items[0].expires_at > Date.now() + 100 * 365 * 86_400_000);

// The feed: page by page, and from an event on.
const mine = [];
for await (const event of latchkey.events()) if (event.app_user_id === user) mine.push(event);
assert.deepEqual(mine.map((one) => one.type), ["INITIAL_PURCHASE", "NON_RENEWING_PURCHASE", "EXPIRATION"]);
for await (const event of latchkey.events({ after: mine[1].id })) assert.notEqual(event.id, mine[1].id);

// Refusals.
const refusal = await latchkey.customer("nobody at all").catch((error) => error);
assert.ok(refusal instanceof LatchkeyError);
assert.deepEqual([refusal.status, refusal.code], [404, "resource_missing"]);
const stranger = new Latchkey({ baseUrl, apiKey: "sk_wrong", projectId });
assert.equal((await stranger.subscriber(user).catch((error) => error)).status, 401);
assert.throws(() => new Latchkey({ baseUrl: "http://localhost", apiKey, projectId }), /https/);
const nowhere = new Latchkey({ baseUrl: "https://127.0.0.1:1", apiKey, projectId, deadlineMs: 300 });
assert.equal((await nowhere.customer(user).catch((error) => error)).status, null);

// A 429 is waited for, a failed read is repeated, a failed write is not.
const answers = [];
const scripted = new Latchkey({
  baseUrl,
  apiKey,
  projectId,
  fetch: async () => {
    const [status, headers] = answers.shift();
    return new Response(JSON.stringify({ items: [], next_page: null, message: "no" }), { status, headers });
  },
});
answers.push([429, { "retry-after": "0" }], [503, {}], [200, {}]);
assert.equal(await scripted.has(user, "pro"), false);
assert.equal(answers.length, 0);
answers.push([429, { "retry-after": "0" }], [503, {}], [200, {}]);
assert.equal((await scripted.grant(user, "pro").catch((error) => error)).status, 503);
assert.equal(answers.length, 1);

// A proxy's 404 is no answer about a customer.
for (const body of ["<html>", "[]", "null", '{"message":"Not Found"}']) {
  const proxied = new Latchkey({ baseUrl, apiKey, projectId, deadlineMs: 300, fetch: async () => new Response(body, { status: 404 }) });
  await assert.rejects(proxied.has(user, "pro"), LatchkeyError);
}

// Access that ends while the answer is on its way: its renewal is not in that answer.
const [clock, ends] = [Date.now, Date.now() + 60_000];
const item = { entitlement_id: "pro", expires_at: ends };
const slow = async () => {
  Date.now = () => ends;
  return new Response(JSON.stringify({ items: [item], next_page: null }));
};
const late = new Latchkey({ baseUrl, apiKey, projectId, fetch: slow });
assert.equal(await late.has(user, "pro"), true);
assert.equal(await late.has(user, "pro"), false);
Date.now = clock;

// Webhooks.
const { body, headers, secret, now } = webhook;
const { event, isTest } = await verifyWebhook(body, headers, secret, { now });
assert.deepEqual([event.type, isTest], ["RENEWAL", false]);
const bytes = new TextEncoder().encode(body);
const test = await verifyWebhook(Buffer.from(bytes), new Headers({ ...headers, "latchkey-test-event": "true" }), secret, { now });
assert.equal(test.isTest, true);
for (const [changedBody, changedHeaders, changedSecret, at] of [
  [`${body} `, headers, secret, now],
  [body, { ...headers, "webhook-id": "another" }, secret, now],
  [body, { ...headers, "webhook-signature": "v1,!!! v2,abc v1" }, secret, now],
  [body, { ...headers, "webhook-signature": undefined }, secret, now],
  [body, headers, `${secret.slice(0, -4)}AAAA`, now],
  [body, headers, secret, now + 301_000],
]) {
  await assert.rejects(verifyWebhook(changedBody, changedHeaders, changedSecret, { now: at }), NotVerifiedError);
}
