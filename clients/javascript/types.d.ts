// What crosses between a server and Latchkey. Replies can have more fields than these.

export interface Options {
  /** Such as `https://billing.example.com`. Only https. */
  baseUrl: string;
  /** A secret key, `sk_...`. */
  apiKey: string;
  /** `proj_...` */
  projectId: string;
  /** How long one call may take with all its attempts: 30 seconds unless given. */
  deadlineMs?: number;
  /** Another fetch, for tests or a proxy. */
  fetch?: typeof globalThis.fetch;
}

export interface List<Item> {
  items: Item[];
  /** The path of the next page. */
  next_page: string | null;
  url: string;
}

/** V2: what a customer may do now. Times are milliseconds. */
export interface ActiveEntitlement {
  entitlement_id: string;
  /** About 200 years ahead if it never ends. */
  expires_at: number;
}

export interface Attribute {
  name: string;
  value: string;
  updated_at: number;
}

/** V2: a customer. */
export interface Customer {
  id: string;
  project_id: string;
  first_seen_at: number;
  last_seen_at: number;
  last_seen_app_version: string | null;
  last_seen_country: string | null;
  last_seen_platform: string | null;
  last_seen_platform_version: string | null;
  active_entitlements: List<ActiveEntitlement>;
  attributes: List<Attribute>;
  experiment?: { id: string; name: string; variant: string };
}

/** V1 and webhooks: an entitlement. Times are ISO 8601. It is active while `expires_date` is null or ahead. */
export interface Entitlement {
  expires_date: string | null;
  grace_period_expires_date: string | null;
  product_identifier: string;
  purchase_date: string;
}

/** V1: a subscription. */
export interface Subscription {
  expires_date: string | null;
  purchase_date: string;
  original_purchase_date: string;
  refunded_at: string | null;
  unsubscribe_detected_at: string | null;
  billing_issues_detected_at: string | null;
  grace_period_expires_date: string | null;
  auto_resume_date: string | null;
  is_sandbox: boolean;
  ownership_type: string;
  period_type: string;
  store: string;
}

/** V1: a one-time purchase. */
export interface OneTimePurchase {
  id: string;
  purchase_date: string;
  original_purchase_date: string;
  is_sandbox: boolean;
  store: string;
  store_transaction_id: string;
}

/** V1: a customer with its history. */
export interface Subscriber {
  original_app_user_id: string;
  first_seen: string;
  last_seen: string;
  management_url: string | null;
  original_purchase_date: string | null;
  /** Expired ones too. */
  entitlements: Record<string, Entitlement>;
  subscriptions: Record<string, Subscription>;
  non_subscriptions: Record<string, OneTimePurchase[]>;
  subscriber_attributes?: Record<string, { value: string; updated_at_ms: number }>;
}

/** An event, as webhooks and the feed have it. Types that are not known yet can occur. */
export interface Event {
  /** The same when an event arrives twice. */
  id: string;
  type: string;
  app_user_id: string;
  original_app_user_id: string;
  aliases: string[];
  event_timestamp_ms: number;
  /** `PRODUCTION` or `SANDBOX` */
  environment: string;
  /** What the customer holds. Copying it is always right. */
  entitlements: Record<string, Entitlement>;
  /** Counts a customer's events from 1. Absent from test events. */
  sequence?: number;
  product_id: string | null;
  period_type: string | null;
  purchased_at_ms: number | null;
  expiration_at_ms: number | null;
  original_purchase_date_ms: number | null;
  store: string | null;
  price: number | null;
  currency: string | null;
}
