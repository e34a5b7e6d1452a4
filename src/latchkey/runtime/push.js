/**
 * For web content inside the app: get the device's push player id, and register it with the app's own server.
 * Safe to call in an ordinary browser, where there is no bridge.
 */

/** The device's player id, or null: outside the app, without permission, or without a response in time. */
export async function getPushPlayerId({
  timeout = 1000,
  property = "bridge",
  command = "getpushplayerid",
  variable = "pushplayerid",
} = {}) {
  // A bridge has a setter. Another variable with that name belongs to the page, and assigning would overwrite it.
  if (!Object.getOwnPropertyDescriptor(globalThis, property)?.set) return null;
  globalThis[property] = `${command}://`;
  for (const began = performance.now(); ; ) {
    const id = globalThis[variable];
    if (typeof id === "string" && id) return id;
    if (id === null || performance.now() - began >= timeout) return null;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The server refused the device. `status` is the HTTP status, 0 if there was no response. */
export class RegistrationError extends Error {
  constructor(status, cause) {
    super(status ? `The server answered ${status} to the registration.` : "The server could not be reached.", { cause });
    this.name = "RegistrationError";
    this.status = status;
  }
}

/** Register this device for the signed-in user. Resolves to its player id; to null, sending nothing, if it has none. */
export async function registerDevice({ url, token, platform, language, timeout = 10000, ...bridge }) {
  const target = new URL(url, location.href);
  if (target.protocol !== "https:") throw new TypeError("registerDevice needs an https:// address: it sends a token.");
  const id = await getPushPlayerId(bridge);
  if (id === null) return null;
  const impatience = new AbortController();
  const timer = setTimeout(() => impatience.abort(), timeout);
  try {
    const response = await fetch(target, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ player_id: id, platform, language: language ?? navigator.language }),
      credentials: "omit",
      redirect: "error",
      signal: impatience.signal,
    });
    if (!response.ok) throw new RegistrationError(response.status);
    return id;
  } catch (error) {
    throw error instanceof RegistrationError ? error : new RegistrationError(0, error);
  } finally {
    clearTimeout(timer);
  }
}
