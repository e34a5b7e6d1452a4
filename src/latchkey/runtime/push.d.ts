/** Names of the app's bridge, if they differ from the defaults. */
export interface BridgeNames {
  /** Default `"bridge"`. */
  property?: string;
  /** Without `://`; default `"getpushplayerid"`. */
  command?: string;
  /** Default `"pushplayerid"`. */
  variable?: string;
}

export interface PlayerIdOptions extends BridgeNames {
  /** Milliseconds to wait for a response; default 1000. */
  timeout?: number;
}

export interface RegistrationOptions extends BridgeNames {
  /** The URL at which the app's own server registers devices, https only: `/api/devices`. */
  url: string | URL;
  /** The signed-in user's token, sent as `Authorization: Bearer`. */
  token: string;
  platform?: "ios" | "android" | "web" | (string & {});
  /** Default `navigator.language`. */
  language?: string;
  /** Milliseconds to wait for the server; default 10000. */
  timeout?: number;
}

/** The device's player id; `null` outside the app, without permission, or without a response in time. Never rejects. */
export function getPushPlayerId(options?: PlayerIdOptions): Promise<string | null>;

/** The server refused the device. */
export class RegistrationError extends Error {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
}

/**
 * Register this device for the signed-in user. Resolves to its player id, or to `null`, sending nothing, if it has none.
 * Rejects with `RegistrationError`, or with `TypeError` for an address that is not https.
 */
export function registerDevice(options: RegistrationOptions): Promise<string | null>;
