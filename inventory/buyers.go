package inventory

import "context"

// removeBuyers removes the item's entries among the activity's buyers, each
// unless it changes before.
func (s *Service) removeBuyers(ctx context.Context, item Item) error {
	var users, entries []any
	err := s.scan(ctx, item.buyersKey(), func(field, value string) (bool, error) {
		_, _, ours, err := parseBuyer(value, item.ID)
		if ours {
			users, entries = append(users, field), append(entries, value)
		}
		return true, err
	})
	if err != nil {
		return err
	}
	for len(users) > 0 {
		n := min(len(users), scriptChunk)
		args := append(append([]any{n}, users[:n]...), entries[:n]...)
		users, entries = users[n:], entries[n:]
		if _, err := unbuyScript.run(ctx, s.deps.Redis, 1, []string{item.buyersKey()}, args...); err != nil {
			return err
		}
	}
	return nil
}

// alignBuyers brings the activity's entries of some users in line with the
// item's marks under epoch, and returns how many it changed. Entries of other
// items stay.
func (s *Service) alignBuyers(ctx context.Context, item Item, epoch int64, users []string) (changed int64, err error) {
	keys := []string{item.stateKey(), item.usersKey(epoch), item.buyersKey()}
	for len(users) > 0 {
		n := min(len(users), scriptChunk)
		args := make([]any, 0, 3+n)
		args = append(args, item.ID, epoch, n)
		for _, u := range users[:n] {
			args = append(args, u)
		}
		users = users[n:]
		r, err := buyersScript.run(ctx, s.deps.Redis, 2, keys, args...)
		if err != nil {
			return changed, err
		}
		changed += r.int(1)
	}
	return changed, nil
}
