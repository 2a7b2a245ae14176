package pgtest

import (
	"flag"
	"strconv"
)

// RapidChecks sets how many cases the package's rapid tests run: fewer than
// rapid's hundred, because each makes many round trips. Call it in TestMain,
// before flags are parsed, so that -rapid.checks can override it.
func RapidChecks(n int) {
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
