package order

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/store/outbox"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/proof"
)

// unsentAfter is the age from which on an event counts as late: it is sent within milliseconds, or seconds after a
// restart of NATS or of the server.
const unsentAfter = 10 * time.Second

// checkGivenUp finds messages of grants that the writer gave up on. Their numbers were answered 202, and have no end
// until an operator redrives the message.
func (s *Service) checkGivenUp(ctx context.Context) ([]proof.Violation, error) {
	letters, err := deadletters.List(ctx, s.deps.DB, deadletters.Filter{Consumer: writerName, Limit: violationLimit})
	if err != nil {
		return nil, fmt.Errorf("order: list grants that were given up: %w", err)
	}
	var violations []proof.Violation
	for _, l := range letters {
		violations = append(violations, proof.Violation{
			Subject: "dead letter " + l.ID.String(),
			Detail:  fmt.Sprintf("A message of %s was given up after %d attempts: %s", l.Subject, l.Attempts, l.Error),
		})
	}
	return violations, nil
}

// checkSent finds events that the bus refuses, whether they are still tried or have failed, and an outbox whose oldest
// event is not sent because the relay stands still. The outbox is shared by all modules; most of its events are about
// orders.
func (s *Service) checkSent(ctx context.Context) ([]proof.Violation, error) {
	refused, err := outbox.Refused(ctx, s.deps.DB, violationLimit)
	if err != nil {
		return nil, err
	}
	var violations []proof.Violation
	for _, e := range refused {
		violations = append(violations, proof.Violation{
			Subject: "event " + e.ID.String(), Detail: fmt.Sprintf("%s was refused %d times and is %s: %s", e.Subject, e.Attempts, e.Status, e.Error),
		})
	}
	first, age, err := outbox.Oldest(ctx, s.deps.DB)
	if err != nil || age < unsentAfter {
		return violations, err
	}
	if err := proof.Pause(ctx); err != nil {
		return nil, err
	}
	subject, later, err := outbox.Oldest(ctx, s.deps.DB)
	// The relay has sent the first one if the oldest is younger now than that one would be.
	if err != nil || subject != first || later < age+proof.Recheck {
		return violations, err
	}
	return append(violations, proof.Violation{
		Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was committed %.0f s ago and is not sent.", subject, later.Seconds()),
	}), nil
}
