// A stand-in for Stripe.js, served by the Stripe emulator. It has the parts that web SDKs call to sell: the embedded
// checkout page, the payment and e-mail elements, and the confirmation of payments and set-ups.
// Cards: 4242 4242 4242 4242 pays, 4000 0000 0000 0002 is declined.
(() => {
  "use strict";
  const api = "__API__";
  const DECLINED = "4000000000000002";

  const ask = async (path, key, values) => {
    const form = new URLSearchParams({ key, ...values });
    const reply = await fetch(api + path, { method: "POST", body: form });
    const said = await reply.json();
    return reply.ok ? { value: said } : { error: said.error };
  };

  const idIn = (clientSecret) => String(clientSecret).split("_secret_")[0];

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children);
    return made;
  };

  const field = (label, attributes) => {
    const input = element("input", { style: "display:block;box-sizing:border-box;width:100%;padding:8px;margin:4px 0 12px;font:inherit", ...attributes });
    return { input, label: element("label", { style: "display:block" }, label, input) };
  };

  const cardField = () =>
    field("Card number", { name: "card", autocomplete: "cc-number", inputmode: "numeric", placeholder: "4242 4242 4242 4242" });

  const digits = (input) => input.value.replace(/\D/g, "");

  const methodFor = (number) => (number === DECLINED ? "pm_card_chargeDeclined" : "pm_card_visa");

  const amountIn = (said) =>
    new Intl.NumberFormat("en", { style: "currency", currency: said.currency.toUpperCase() }).format(said.total);

  const placeOf = (target) => (typeof target === "string" ? document.querySelector(target) : target);

  // Elements.

  const makeElement = (kind, options, shared) => {
    const listeners = {};
    const tell = (name, value) => setTimeout(() => (listeners[name] ?? []).forEach((one) => one(value)), 0);
    let root = null;
    const made = {
      on: (name, listener) => {
        (listeners[name] ??= []).push(listener);
        return made;
      },
      off: (name) => {
        delete listeners[name];
        return made;
      },
      once: (name, listener) => made.on(name, listener),
      update: () => {},
      blur: () => {},
      focus: () => root?.querySelector("input")?.focus(),
      clear: () => {},
      collapse: () => {},
      mount: (target) => {
        const place = placeOf(target);
        root = element("div", { "data-stripe-emulator": kind });
        if (kind === "payment") {
          const card = cardField();
          card.input.addEventListener("input", () => {
            shared.card = digits(card.input);
            const complete = shared.card.length >= 14;
            tell("change", { elementType: kind, complete, empty: !shared.card, collapsed: false, value: { type: "card" } });
          });
          root.append(card.label);
        } else if (kind === "linkAuthentication") {
          const email = field("Email", { name: "email", type: "email", autocomplete: "email" });
          const changed = () => {
            const value = email.input.value;
            tell("change", { elementType: kind, complete: /^\S+@\S+\.\S+$/.test(value), empty: !value, value: { email: value } });
          };
          email.input.addEventListener("input", changed);
          email.input.value = options?.defaultValues?.email ?? "";
          if (email.input.value) changed();
          root.append(email.label);
        } else if (kind === "address") {
          const country = field("Country", { name: "country", value: "US", maxlength: "2" });
          const changed = () =>
            tell("change", {
              elementType: kind,
              complete: country.input.value.length === 2,
              value: { name: "", address: { country: country.input.value, postal_code: "", state: "", city: "", line1: "" } },
            });
          country.input.addEventListener("input", changed);
          changed();
          root.append(country.label);
        }
        place.append(root);
        tell("ready", { elementType: kind, availablePaymentMethods: undefined });
      },
      unmount: () => root?.remove(),
      destroy: () => root?.remove(),
    };
    return made;
  };

  const makeElements = (options) => {
    const shared = { options: { ...options }, card: "" };
    const made = {};
    // Not a plain object, as Stripe's is none: frameworks wrap those, and then see old values of what changes inside.
    return Object.assign(Object.create({ isElements: true }), {
      shared,
      update: (changed) => Object.assign(shared.options, changed),
      create: (kind, its) => (made[kind] = makeElement(kind, its, shared)),
      getElement: (kind) => made[kind] ?? null,
      fetchUpdates: async () => ({}),
      submit: async () =>
        made.payment && shared.card.length < 14
          ? { error: { type: "validation_error", code: "incomplete_number", message: "Your card number is incomplete." } }
          : {},
    });
  };

  const confirming = (key, what, answersAs) => async (asked) => {
    const secret = asked.clientSecret ?? asked.elements?.shared.options.clientSecret;
    const method = methodFor(asked.elements?.shared.card ?? "");
    const said = await ask(`/v1/${what}/${idIn(secret)}/confirm`, key, { client_secret: secret, payment_method: method });
    if (said.error) return { error: said.error };
    const back = asked.confirmParams?.return_url;
    if (back && asked.redirect !== "if_required") location.assign(back);
    return { [answersAs]: said.value };
  };

  // The embedded checkout page.

  const makePage = async (key, options) => {
    const secret = options.clientSecret ?? (await options.fetchClientSecret());
    const id = idIn(secret);
    const page = await ask(`/v1/payment_pages/${id}/init`, key, { client_secret: secret });
    if (page.error) throw new Error(page.error.message);
    const said = page.value;
    const card = cardField();
    const email = field("Email", { name: "email", type: "email", autocomplete: "email" });
    const problem = element("p", { role: "alert", style: "color:light-dark(#b00020,#ff9d92)" });
    const button = element("button", { type: "submit", style: "padding:10px 16px;width:100%;font:inherit" }, said.free ? "Start trial" : "Pay");
    const form = element(
      "form",
      { "data-stripe-emulator": "checkout", "aria-label": "Stripe emulator checkout", style: "box-sizing:border-box;max-width:28rem;margin:0 auto;padding:16px" },
      element("h2", {}, said.name),
      element("p", {}, said.free ? "Nothing is due today" : amountIn(said)),
      ...(said.email ? [] : [email.label]),
      card.label,
      problem,
      button,
      element("p", {}, "This is a Stripe emulator. No money moves."),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (digits(card.input).length < 14) {
        problem.textContent = "Your card number is incomplete.";
        return;
      }
      button.disabled = true;
      const values = { client_secret: secret, payment_method: methodFor(digits(card.input)), email: email.input.value };
      const paid = await ask(`/v1/payment_pages/${id}/confirm`, key, values);
      if (paid.error) {
        button.disabled = false;
        problem.textContent = paid.error.message;
        return;
      }
      form.replaceChildren(element("p", { role: "status" }, "Paid"));
      if (options.onComplete) options.onComplete();
      else if (paid.value.return_url) location.assign(paid.value.return_url.replace("{CHECKOUT_SESSION_ID}", id));
    });
    return {
      mount: (target) => placeOf(target).append(form),
      unmount: () => form.remove(),
      destroy: () => form.remove(),
    };
  };

  const retrieving = (key, what, answersAs) => async (secret) => {
    const asked = new URLSearchParams({ key, client_secret: secret });
    const reply = await fetch(`${api}/v1/${what}/${idIn(secret)}?${asked}`);
    const said = await reply.json();
    return reply.ok ? { [answersAs]: said } : { error: said.error };
  };

  const Stripe = (key) => ({
    elements: makeElements,
    createEmbeddedCheckoutPage: (options) => makePage(key, options),
    initEmbeddedCheckout: (options) => makePage(key, options),
    confirmPayment: confirming(key, "payment_intents", "paymentIntent"),
    confirmSetup: confirming(key, "setup_intents", "setupIntent"),
    retrievePaymentIntent: retrieving(key, "payment_intents", "paymentIntent"),
    retrieveSetupIntent: retrieving(key, "setup_intents", "setupIntent"),
    registerAppInfo: () => {},
    _registerWrapper: () => {},
  });
  Stripe.version = "__RELEASE__";
  window.Stripe = Stripe;
})();
