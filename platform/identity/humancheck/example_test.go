package humancheck_test

import (
	"context"
	"fmt"
	"strings"

	"stampede/platform/identity/humancheck"
)

// A client other than a browser solves a proof of work like this.
func ExampleSolve() {
	// From GET /api/v1/items/42/challenge.
	challenge, difficulty := strings.Repeat("A", 92), 12

	solution, err := humancheck.Solve(context.Background(), challenge, difficulty)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("Human-Check:", strings.Replace(solution, challenge, "AAA…", 1))
	// Output: Human-Check: pow:AAA….384
}
