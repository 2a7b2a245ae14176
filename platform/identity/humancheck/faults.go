package humancheck

import (
	"errors"

	"stampede/platform/base/fault"
)

// What a caller is told.
var (
	// ErrRequired asks for a solution. It carries kind and challenge_url, and the
	// challenge itself where that costs nothing to make.
	ErrRequired = fault.New(fault.Forbidden, "human-check-required", fault.Titles{"Show that you are not a program", "请先完成人机验证"},
		"Solve a challenge of the given kind, from challenge_url or in challenge, and send the request again with the solution in the header Human-Check.")
	// ErrFailed refuses a solution. It carries what ErrRequired does, and reason.
	ErrFailed = fault.New(fault.Forbidden, "human-check-failed", fault.Titles{"The check was not passed", "人机验证未通过，请重试"},
		"The solution in the header Human-Check was not accepted, see reason; solve another challenge.")
	// ErrUnavailable says that nothing can be checked now, and that nobody gets past.
	ErrUnavailable = fault.New(fault.Unavailable, "human-check-unavailable", fault.Titles{"The check is not available right now", "人机验证暂不可用，请稍后再试"},
		"The human check cannot be made right now; try again in a moment.")
)

// Why a solution is refused; the words are the values of reason, and of the label
// result of the metric.
var (
	errMalformed = errors.New("malformed") // not one of the three forms
	errForged    = errors.New("forged")    // not signed by us as it stands
	errForeign   = errors.New("foreign")   // made for another user, item, purpose or address
	errLate      = errors.New("late")      // expired
	errWeak      = errors.New("weak")      // fewer zero bits than the challenge asks for
	errUsed      = errors.New("used")      // has been sent before
	errWrong     = errors.New("wrong")     // the tile is elsewhere; the verifier says no
)
