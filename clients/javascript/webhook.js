// Verifying webhooks (https://www.standardwebhooks.com), with what every modern runtime has.

/** @import { Event } from "./types.js" */

/** A webhook whose signature, time or body is not right: answer 401. */
export class NotVerifiedError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "NotVerifiedError";
  }
}

/**
 * Verify a webhook by its signature. Throws NotVerifiedError.
 * @param {string | Uint8Array} body As it arrived: not parsed and written again.
 * @param {Headers | Record<string, string | string[] | undefined>} headers Of the request, in any case.
 * @param {string} secret `whsec_...`
 * @param {{ toleranceSeconds?: number, now?: number }} [options]
 * @returns {Promise<{ event: Event, isTest: boolean }>} Answer a test event with 200, and change nothing.
 */
export async function verifyWebhook(body, headers, secret, { toleranceSeconds = 300, now = Date.now() } = {}) {
  const plain = headers instanceof Headers ? headers : new Headers(flat(headers));
  const id = plain.get("webhook-id");
  const timestamp = plain.get("webhook-timestamp");
  const signatures = plain.get("webhook-signature");
  if (!id || !timestamp || !signatures) throw new NotVerifiedError("The webhook has no signature.");
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > toleranceSeconds) {
    throw new NotVerifiedError("The webhook is too old, or a clock is wrong.");
  }
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const start = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(start.length + content.length);
  signed.set(start);
  signed.set(content, start.length);
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), hmac, false, ["verify"]);
  for (const one of signatures.split(" ")) {
    const [version, value] = one.split(",");
    // `verify` compares in constant time.
    if (version === "v1" && value && (await crypto.subtle.verify("HMAC", key, bytes(value), signed))) {
      const { event } = JSON.parse(new TextDecoder().decode(content));
      return { event, isTest: plain.get("latchkey-test-event") === "true" };
    }
  }
  throw new NotVerifiedError("The signature is not right.");
}

/**
 * @param {Record<string, string | string[] | undefined>} headers
 * @returns {[string, string][]}
 */
function flat(headers) {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(" ") : value]],
  );
}

/**
 * @param {string} base64
 * @returns {Uint8Array<ArrayBuffer>}
 */
function bytes(base64) {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array(0);
  }
}
