// Package office is the back office under /admin: pages that the server renders from
// its own HTTP API. It knows no module. A module describes its pages in a [Section]:
// which documents of the API each reads, with which template it shows them, and which
// forms send which requests.
//
// # Only the API
//
// The office does nothing by itself. A page becomes requests to the router, in process,
// with the operator's access token, language and network address. So authorization,
// validation, the audit log, rate limits and the words of a refusal exist once, and the
// office can do nothing that the API would refuse. The one thing that it adds is that
// some forms ask for the password again (see [Act.Again]).
//
// # Session
//
// A login of the API is kept in one cookie, encrypted under a key derived from the
// signing key, HttpOnly and SameSite=Strict, so that no script reads it and no other
// site uses it. Nothing is stored at the server: with Redis away the office works as
// far as the API does. The access token is refreshed in process, once for all requests
// that need it at the same moment; the API gives two instances that refresh the same
// token within ten seconds the same successor, so that two tabs do not log each other
// out. Requests that change something are also checked by http.CrossOriginProtection.
//
// # Forms
//
// A form carries the Idempotency-Key that was made with it: sending it twice has one
// effect. What the API refuses is shown in the form, with what was typed, the invalid
// fields, and what to do instead. A page shows no form that the operator's role may not
// use; the API refuses it anyway.
//
// No page needs a script. The two that there are focus the search field, confirm, and
// solve the human check of a sign-in.
package office
