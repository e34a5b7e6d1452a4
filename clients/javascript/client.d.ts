/** @import { ActiveEntitlement, Customer, Event, List, Options, Subscriber } from "./types.js" */
/** The service refused a call, or could not be reached. */
export class LatchkeyError extends Error {
    /**
     * @param {string} message
     * @param {number | null} status Null if there was no response.
     * @param {string | number | null} code V2: the `type` of the error; V1: its number.
     */
    constructor(message: string, status?: number | null, code?: string | number | null);
    status: number | null;
    code: string | number | null;
}
export class Latchkey {
    /** @param {Options} options */
    constructor({ baseUrl, apiKey, projectId, deadlineMs, fetch }: Options);
    /**
     * V2: the customer with what it may do now.
     * @param {string} customerId
     * @returns {Promise<Customer>}
     */
    customer(customerId: string): Promise<Customer>;
    /**
     * V1: the customer with its history. The service creates one that it does not know.
     * @param {string} appUserId
     * @returns {Promise<Subscriber>}
     */
    subscriber(appUserId: string): Promise<Subscriber>;
    /**
     * Whether the customer holds the entitlement now. False for a customer that the service does not know.
     * @param {string} customerId
     * @param {string} entitlementId
     * @returns {Promise<boolean>}
     */
    has(customerId: string, entitlementId: string): Promise<boolean>;
    /**
     * V2: what the customer may do now.
     * @param {string} customerId
     * @returns {AsyncGenerator<ActiveEntitlement, void, void>}
     */
    activeEntitlements(customerId: string): AsyncGenerator<ActiveEntitlement, void, void>;
    /**
     * Every event of the project, oldest first.
     * @param {{ after?: string }} [from] The id of the last event that is known already.
     * @returns {AsyncGenerator<Event, void, void>}
     */
    events({ after }?: {
        after?: string;
    }): AsyncGenerator<Event, void, void>;
    /**
     * Give an entitlement without a purchase.
     * @param {string} customerId
     * @param {string} entitlementId
     * @param {{ expiresAt?: number | Date | null }} [until] For ever unless given.
     * @returns {Promise<Customer>}
     */
    grant(customerId: string, entitlementId: string, { expiresAt }?: {
        expiresAt?: number | Date | null;
    }): Promise<Customer>;
    /**
     * End all grants of an entitlement. Purchases are not affected.
     * @param {string} customerId
     * @param {string} entitlementId
     * @returns {Promise<Customer>}
     */
    revoke(customerId: string, entitlementId: string): Promise<Customer>;
    #private;
}
import type { Customer } from "./types.js";
import type { Subscriber } from "./types.js";
import type { ActiveEntitlement } from "./types.js";
import type { Event } from "./types.js";
import type { Options } from "./types.js";
