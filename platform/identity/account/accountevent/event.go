// Package accountevent is the contract of package account with the modules: what
// happened to an account. An event names no phone and no person.
package accountevent

// SubjectRegistered is the subject on EVENTS of new accounts, however they were made:
// by phone and password, by the first login with a code, or by the first through WeChat.
// Its payload is Registered as JSON.
const SubjectRegistered = "events.account.registered"

// Registered is a new account.
type Registered struct {
	UserID int64 `json:"user_id,string"`
}
