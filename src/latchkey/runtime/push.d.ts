/** Where the app's bridge has other names. All have the ordinary ones as defaults. */
export interface BridgeNames {
  /** Default `"bridge"`. */
  property?: string;
  /** Without `://`; default `"getpushplayerid"`. */
  command?: string;
  /** Default `"pushplayerid"`. */
  variable?: string;
}

export interface PlayerIdOptions extends BridgeNames {
  /** Milliseconds to wait for an answer; default 1000. */
  timeout?: number;
}

export interface RegistrationOptions extends BridgeNames {
  /** Where the app's own server takes devices, over https: `/api/devices`. */
  url: string | URL;
  /** The signed-in user's token, sent as `Authorization: Bearer`. */
  token: string;
  platform?: "ios" | "android" | "web" | (string & {});
  /** Default `navigator.language`. */
  language?: string;
  /** Milliseconds to wait for the server; default 10000. */
  timeout?: number;
}

/** The device's player id; `null` outside the app, without permission, or when no answer came in time. Never rejects. */
export function getPushPlayerId(options?: PlayerIdOptions): Promise<string | null>;

/** The server did not take the device. */
export class RegistrationError extends Error {
  /** The server's answer; 0 when there was none. */
  readonly status: number;
}

/**
 * Register this device for the signed-in user. Resolves to its player id, or to `null`, with nothing sent, where it has none.
 * Rejects with `RegistrationError`, or with `TypeError` for an address that is not https.
 */
export function registerDevice(options: RegistrationOptions): Promise<string | null>;
