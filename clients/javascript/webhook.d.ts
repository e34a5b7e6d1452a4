/**
 * Verify a webhook by its signature. Throws NotVerifiedError.
 * @param {string | Uint8Array} body As it arrived: not parsed and written again.
 * @param {Headers | Record<string, string | string[] | undefined>} headers Of the request, in any case.
 * @param {string} secret `whsec_...`
 * @param {{ toleranceSeconds?: number, now?: number }} [options]
 * @returns {Promise<{ event: Event, isTest: boolean }>} Answer a test event with 200, and change nothing.
 */
export function verifyWebhook(body: string | Uint8Array, headers: Headers | Record<string, string | string[] | undefined>, secret: string, { toleranceSeconds, now }?: {
    toleranceSeconds?: number;
    now?: number;
}): Promise<{
    event: Event;
    isTest: boolean;
}>;
/** @import { Event } from "./types.js" */
/** A webhook whose signature, time or body is not right: answer 401. */
export class NotVerifiedError extends Error {
    /** @param {string} message */
    constructor(message: string);
}
import type { Event } from "./types.js";
