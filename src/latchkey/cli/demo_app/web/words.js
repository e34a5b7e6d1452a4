/** The texts of each state, and its possible actions. The server decides whether an action is possible. */

const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });
const brief = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const moment = new Intl.DateTimeFormat("en", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "numeric",
  minute: "2-digit",
});

export const moments = { day: (ms) => day.format(ms), brief: (ms) => brief.format(ms), full: (ms) => moment.format(ms) };

const CANCEL = { action: "cancel", label: () => "Cancel Pro" };

export const STATES = {
  free: {
    badge: "Free",
    title: (name) => `The house is dark, ${name}`,
    sentence: () => "Pro turns on the lights. It is bought in the test store, so it costs nothing.",
    wishes: [{ action: "buy", label: (price) => `Get Pro · ${price} a month`, main: true }],
  },
  pro: {
    badge: "Pro",
    title: (name) => `Welcome home, ${name}`,
    sentence: (until) => `The lights are on. Pro renews on ${until}.`,
    wishes: [CANCEL],
  },
  trouble: {
    badge: "Trouble with payment",
    title: () => "The last payment failed",
    sentence: (until) => `The lights stay on until ${until}. Pay before then and nothing is lost.`,
    wishes: [{ action: "pay", label: () => "Pay now", main: true }, CANCEL],
  },
  cancelled: {
    badge: "Cancelled",
    title: () => "Pro will end",
    sentence: (until) => `It is paid until ${until}, and the lights stay on until then.`,
    wishes: [{ action: "keep", label: () => "Keep Pro", main: true }],
  },
  ended: {
    badge: "Ended",
    title: () => "The lights are off",
    sentence: () => "Pro has ended. The house is still yours: come back whenever you like.",
    wishes: [{ action: "buy", label: (price) => `Get Pro again · ${price} a month`, main: true }],
  },
};

const EVENTS = {
  INITIAL_PURCHASE: ["Pro was bought", "good"],
  RENEWAL: ["Paid for another month", "good"],
  BILLING_ISSUE: ["The payment failed", "bad"],
  CANCELLATION: ["Renewal was turned off", "glow"],
  UNCANCELLATION: ["Renewal was turned on again", "good"],
  EXPIRATION: ["Access ended", ""],
  REFUND: ["The money was given back", "bad"],
  TRIAL_STARTED: ["A trial began", "good"],
};

export const price = ({ price, currency }) => new Intl.NumberFormat("en", { style: "currency", currency }).format(price);

/** The text and colour of a status. */
export const told = (type) => EVENTS[type] ?? ["Something else happened", ""];
