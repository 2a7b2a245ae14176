package statement

import (
	"context"
	"fmt"
	"time"

	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/watch/proof"
)

const (
	// late is when a statement has to be compared: it is made by noon of the next day, and
	// then the alarm takes half a day of attempts.
	late = 24 * time.Hour
	// grace is late after the end of the day that a movement belongs to.
	grace = late + 24*time.Hour
	// checkDays is how far back the check looks: statements of older days may have been
	// waived, or are not to be had any more.
	checkDays = 8 * 24 * time.Hour
)

// Check reports the last week's days whose statement was not compared, although money
// moved. A day on which nothing moved is excused, and so are the ledger's names without
// statements.
func Check(ctx context.Context, db statementdb.DBTX, atMost int32, without ...string) (all []proof.Violation, err error) {
	rows, err := statementdb.New(db).NotCompared(ctx, statementdb.NotComparedParams{Since: checkDays, Grace: grace, Late: late, Without: without, AtMost: atMost})
	if err != nil {
		return nil, fmt.Errorf("statement: check: %w", err)
	}
	for _, r := range rows {
		all = append(all, proof.Violation{Subject: "statement " + r.Provider + " " + r.Day.Format(time.DateOnly), Detail: "it was not compared with the ledger: " + r.Why})
	}
	return all, nil
}
