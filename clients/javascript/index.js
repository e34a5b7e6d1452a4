/**
 * @typedef {import("./types.js").ActiveEntitlement} ActiveEntitlement
 * @typedef {import("./types.js").Customer} Customer
 * @typedef {import("./types.js").Entitlement} Entitlement
 * @typedef {import("./types.js").Event} Event
 * @typedef {import("./types.js").Options} Options
 * @typedef {import("./types.js").Subscriber} Subscriber
 * @typedef {import("./types.js").Subscription} Subscription
 */

export { Latchkey, LatchkeyError } from "./client.js";
export { NotVerifiedError, verifyWebhook } from "./webhook.js";
