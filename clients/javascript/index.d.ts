export type ActiveEntitlement = import("./types.js").ActiveEntitlement;
export type Customer = import("./types.js").Customer;
export type Entitlement = import("./types.js").Entitlement;
export type Event = import("./types.js").Event;
export type Options = import("./types.js").Options;
export type Subscriber = import("./types.js").Subscriber;
export type Subscription = import("./types.js").Subscription;
export { Latchkey, LatchkeyError } from "./client.js";
export { NotVerifiedError, verifyWebhook } from "./webhook.js";
