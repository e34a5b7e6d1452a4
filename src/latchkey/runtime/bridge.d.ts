/** The options of `bridge.js`. */
export interface BridgeOptions {
  /** The device's push player id; `null` if there is none (not registered yet, or the user refused). */
  playerId: string | null;
  /** The app's own origins, as in `location.origin`. On other origins the script does nothing. */
  origins: string[];
  /** The names of the bridge property: `["bridge"]`. */
  properties: string[];
  /** Each command, in lower case and without `://`, and the variable it sets: `{getpushplayerid: "pushplayerid"}`. */
  commands: Record<string, string>;
}

/** What web content sees inside the app, with the default names. */
declare global {
  interface Window {
    /** Assign a command such as `"getpushplayerid://"`. Other values are kept and read back. */
    bridge?: unknown;
    /** Set by `getpushplayerid://`, at once. */
    pushplayerid?: string | null;
  }
}
