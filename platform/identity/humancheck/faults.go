package humancheck

import (
	"errors"

	"stampede/platform/base/fault"
)

// What a caller gets.
var (
	// ErrRequired requires a solution. It carries kind and challenge_url, and the
	// challenge itself if that costs nothing to make.
	ErrRequired = fault.New(fault.Forbidden, "human-check-required", fault.Titles{"Complete the human check", "请先完成人机验证"},
		"Solve a challenge of the given kind, from challenge_url or in challenge, and send the request again with the solution in the header Human-Check.")
	// ErrFailed refuses a solution. It carries the fields of ErrRequired, and
	// reason.
	ErrFailed = fault.New(fault.Forbidden, "human-check-failed", fault.Titles{"The human check failed", "人机验证未通过，请重试"},
		"The solution in the header Human-Check was not accepted (see reason); solve a new challenge.")
	// ErrUnavailable means that the check cannot be made now; every request that
	// needs it is refused.
	ErrUnavailable = fault.New(fault.Unavailable, "human-check-unavailable", fault.Titles{"The check is not available right now", "人机验证暂不可用，请稍后再试"},
		"The human check is not available right now; try again in a moment.")
)

// Why a solution is refused; these words are the values of the field reason and of
// the metric's label result.
var (
	errMalformed = errors.New("malformed") // not one of the three forms
	errForged    = errors.New("forged")    // the signature does not match
	errForeign   = errors.New("foreign")   // made for another user, item, purpose or address
	errLate      = errors.New("late")      // expired
	errWeak      = errors.New("weak")      // fewer zero bits than required, by the challenge or since it was made
	errUsed      = errors.New("used")      // was sent before
	errDrag      = errors.New("drag")      // a slide whose tile no person can have moved that way
	errWrong     = errors.New("wrong")     // wrong tile position, or the verifier said no
)
