/** Calls to the app's own server. The only secret here is the user's token; a page never gets the service's key. */

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, { token, body, method = body ? "POST" : "GET" } = {}) {
  const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(body && { "Content-Type": "application/json" }) };
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Refusal(0, "You are offline. Try again in a moment.");
  }
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Refusal(reply.status, said.error ?? `The server answered ${reply.status}.`);
  return said;
}

export const offer = () => ask("/demo/offer");
export const signIn = async (user) => (await ask("/demo/session", { body: { user } })).token;
export const wish = (token, action) => ask("/demo/actions", { token, body: { action } });
export const forgetDevice = (token, id) => ask(`/api/devices/${encodeURIComponent(id)}`, { token, method: "DELETE" });

/**
 * Calls `heard` with the user's state, now and whenever it changes, until `signal` is aborted. An EventSource cannot send
 * a token, so this reads the same format with fetch. Resolves to false when the token is no longer valid.
 */
export async function live(token, signal, heard) {
  for (let wait = 250; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    try {
      const reply = await fetch("/demo/live", { headers: { Authorization: `Bearer ${token}` }, signal });
      if (reply.status === 401 || reply.status === 403) return false;
      if (reply.ok) {
        for await (const data of messages(reply.body)) {
          heard(JSON.parse(data));
          wait = 250;
        }
      }
    } catch {
      // The connection broke; open it again.
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  return true;
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}
