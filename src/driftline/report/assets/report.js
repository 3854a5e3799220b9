// What a report does when pointed at. Everything it shows is in the page already; nothing is loaded.
"use strict";
var driftline = (() => {
  const enhance = (root) => root;
  return { enhance };
})();
if (typeof document !== "undefined") driftline.enhance(document);
