/*
 * The app runtime's bridge: web content assigns a command to a property of `window`, and the result is a global variable.
 *
 *     window.bridge = "getpushplayerid://";
 *     window.pushplayerid;                     // "1dd608f2-…", or null if the device has none
 *
 * To host it: run this file's text followed by "(" + options as JSON + ");" at document start, before any script of the
 * page. The options (see bridge.d.ts) contain the player id: a call to native code would return too late.
 *
 * It needs no eval, adds no element and loads nothing, so it works under any content security policy. ES5, for old web views.
 */
(function (options) {
  "use strict";
  // `origin` is also correct in about:blank and srcdoc frames, which inherit it, and in sandboxed ones, where it is "null".
  var origin = typeof window.origin === "string" ? window.origin : window.location.origin;
  if (options.origins.indexOf(origin) < 0) return;

  var command = /^\s*([\w+.-]+):\/\//;
  var settled = Promise.resolve();

  function answer(variable) {
    window[variable] = options.playerId;
    // Some helpers assign the command and then delete the variable before they look for it.
    settled.then(function () {
      window[variable] = options.playerId;
    });
  }

  options.properties.forEach(function (property) {
    // A value that is not a command is stored unchanged.
    var kept = window[property];
    Object.defineProperty(window, property, {
      configurable: true,
      enumerable: true,
      get: function () {
        return kept;
      },
      set: function (value) {
        var asked = typeof value === "string" && command.exec(value);
        if (!asked) {
          kept = value;
          return;
        }
        var name = asked[1].toLowerCase();
        if (Object.prototype.hasOwnProperty.call(options.commands, name)) answer(options.commands[name]);
        else console.warn("This app does not know the command " + name + "://");
      },
    });
  });
})
