// Latchkey's client for servers. It uses only what every modern runtime has (fetch, Web Crypto): Node 20, Deno, Bun, workers.
// It sends a secret key, so it must never be part of an app or of a page.

/** @import { ActiveEntitlement, Customer, Event, List, Options, Subscriber } from "./types.js" */

/** The service refused a call, or could not be reached. */
export class LatchkeyError extends Error {
  /**
   * @param {string} message
   * @param {number | null} status Null if there was no response.
   * @param {string | number | null} code V2: the `type` of the error; V1: its number.
   */
  constructor(message, status = null, code = null) {
    super(message);
    this.name = "LatchkeyError";
    this.status = status;
    this.code = code;
  }
}

export class Latchkey {
  #base;
  #headers;
  #project;
  #deadlineMs;
  #fetch;

  /** @param {Options} options */
  constructor({ baseUrl, apiKey, projectId, deadlineMs = 30_000, fetch = globalThis.fetch }) {
    const base = new URL(baseUrl);
    if (base.protocol !== "https:") throw new TypeError("baseUrl must begin with https://: every request contains the key.");
    this.#base = base.origin;
    this.#headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
    this.#project = `/v2/projects/${encodeURIComponent(projectId)}`;
    this.#deadlineMs = deadlineMs;
    this.#fetch = fetch;
  }

  /**
   * V2: the customer with what it may do now.
   * @param {string} customerId
   * @returns {Promise<Customer>}
   */
  async customer(customerId) {
    return this.#call("GET", this.#customer(customerId));
  }

  /**
   * V1: the customer with its history. The service creates one that it does not know.
   * @param {string} appUserId
   * @returns {Promise<Subscriber>}
   */
  async subscriber(appUserId) {
    return (await this.#call("GET", `/v1/subscribers/${encodeURIComponent(appUserId)}`)).subscriber;
  }

  /**
   * Whether the customer holds the entitlement now. False for a customer that the service does not know.
   * @param {string} customerId
   * @param {string} entitlementId
   * @returns {Promise<boolean>}
   */
  async has(customerId, entitlementId) {
    // What the service answers may end on its way here, and the renewal is not in that answer.
    const asked = Date.now();
    try {
      for await (const one of this.activeEntitlements(customerId)) {
        if (one.entitlement_id === entitlementId && one.expires_at > asked) return true;
      }
    } catch (error) {
      // A 404 without a code is a proxy's, and says nothing about the customer.
      if (!(error instanceof LatchkeyError) || error.status !== 404 || error.code === null) throw error;
    }
    return false;
  }

  /**
   * V2: what the customer may do now.
   * @param {string} customerId
   * @returns {AsyncGenerator<ActiveEntitlement, void, void>}
   */
  activeEntitlements(customerId) {
    return this.#all(`${this.#customer(customerId)}/active_entitlements`);
  }

  /**
   * Every event of the project, oldest first.
   * @param {{ after?: string }} [from] The id of the last event that is known already.
   * @returns {AsyncGenerator<Event, void, void>}
   */
  async *events({ after } = {}) {
    const from = after === undefined ? "" : `&starting_after=${encodeURIComponent(after)}`;
    yield* this.#all(`${this.#project}/events?limit=100${from}`);
  }

  /**
   * Give an entitlement without a purchase.
   * @param {string} customerId
   * @param {string} entitlementId
   * @param {{ expiresAt?: number | Date | null }} [until] For ever unless given.
   * @returns {Promise<Customer>}
   */
  async grant(customerId, entitlementId, { expiresAt = null } = {}) {
    const expires_at = expiresAt instanceof Date ? expiresAt.getTime() : expiresAt;
    const body = { entitlement_id: entitlementId, expires_at };
    return this.#call("POST", `${this.#customer(customerId)}/actions/grant_entitlement`, body);
  }

  /**
   * End all grants of an entitlement. Purchases are not affected.
   * @param {string} customerId
   * @param {string} entitlementId
   * @returns {Promise<Customer>}
   */
  async revoke(customerId, entitlementId) {
    const body = { entitlement_id: entitlementId };
    return this.#call("POST", `${this.#customer(customerId)}/actions/revoke_granted_entitlement`, body);
  }

  /** @param {string} id */
  #customer(id) {
    return `${this.#project}/customers/${encodeURIComponent(id)}`;
  }

  /**
   * @param {string} path
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *#all(path) {
    /** @type {string | null} */
    let next = path;
    while (next !== null) {
      /** @type {List<any>} */
      const page = await this.#call("GET", next);
      yield* page.items;
      next = page.next_page;
    }
  }

  /**
   * Reads are repeated after a failure, writes only if the service says that it did nothing (429).
   * @param {"GET" | "POST"} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<any>}
   */
  async #call(method, path, body) {
    const deadline = Date.now() + this.#deadlineMs;
    for (let attempt = 0; ; attempt += 1) {
      const failure = await this.#attempt(method, path, body, deadline);
      if (!(failure instanceof Failure)) return failure.value;
      const repeatable = failure.error.status === 429 || (method === "GET" && failure.transient);
      const wait = failure.retryAfterMs ?? Math.random() * 200 * 2 ** attempt;
      if (!repeatable || Date.now() + wait >= deadline) throw failure.error;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object | undefined} body
   * @param {number} deadline
   * @returns {Promise<Failure | { value: any }>}
   */
  async #attempt(method, path, body, deadline) {
    /** @type {Response} */
    let response;
    /** @type {any} */
    let value;
    try {
      response = await this.#fetch(this.#base + path, {
        method,
        headers: this.#headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        redirect: "error",
        signal: AbortSignal.timeout(Math.max(1, deadline - Date.now())),
      });
      value = JSON.parse(await response.text());
    } catch (error) {
      const reason = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
      return new Failure(new LatchkeyError(`${this.#base} did not answer: ${reason}`), true);
    }
    if (response.ok) return { value };
    const error = new LatchkeyError(value?.message ?? `status ${response.status}`, response.status, value?.type ?? value?.code ?? null);
    const after = Number(response.headers.get("retry-after") ?? Number.NaN);
    // The service says how long to wait after a 429. If it does not, a minute is right.
    const asked = Number.isFinite(after) ? after * 1000 : null;
    return new Failure(error, response.status >= 500, response.status === 429 ? (asked ?? 60_000) : asked);
  }
}

class Failure {
  /**
   * @param {LatchkeyError} error
   * @param {boolean} transient
   * @param {number | null} retryAfterMs
   */
  constructor(error, transient, retryAfterMs = null) {
    this.error = error;
    this.transient = transient;
    this.retryAfterMs = retryAfterMs;
  }
}
