package inventory

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/ids"
)

// atomicUsers is how many holders are read in one step, which blocks Redis for
// about 40 ms at this size. More are read in portions, which may miss changes
// made meanwhile; if that shows a difference, the caller pays for an atomic
// read.
const atomicUsers = 100_000

// cut is an item in Postgres at one moment and in Redis a moment later.
// Postgres comes first, so the orders' statuses, which are read last, explain
// what happened in between.
type cut struct {
	itemID int64
	stocks []Stock
	live   map[ids.ID]Held
	shards []shardCut
	// status has every number that Redis holds without a live order, and every
	// live order that Redis does not hold; without a row it is "".
	status map[ids.ID]string
}

// shardCut is one stock counter in Redis.
type shardCut struct {
	item   Item
	loaded bool // the state decides; the other fields are empty without one
	state  State
	users  map[int64]mark // the holders; closed marks are left out
	holds  map[ids.ID]openHold
	buyers map[int64]ids.ID // this item's holders; only with one item per activity
}

// readCut reads an item. atomic reads even the largest item in one step.
func (s *Service) readCut(ctx context.Context, itemID int64, atomic bool) (*cut, error) {
	c := &cut{itemID: itemID, live: map[ids.ID]Held{}, status: map[ids.ID]string{}}
	err := pgx.BeginTxFunc(ctx, s.deps.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := inventorydb.New(tx).StockOfItem(ctx, itemID)
		if err != nil {
			return err
		}
		c.stocks = stocksOf(rows)
		live, _, err := s.deps.Holds.Holds(ctx, tx, itemID)
		for _, h := range live {
			c.live[h.No] = h
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inventory: read books of item %d: %w", itemID, err)
	}
	held := map[ids.ID]bool{}
	var unsure []ids.ID
	for _, st := range c.stocks {
		sh, err := s.readShard(ctx, st.item(), atomic)
		if err != nil {
			return nil, err
		}
		c.shards = append(c.shards, sh)
		for _, m := range sh.users {
			held[m.no] = true
			if _, ok := c.live[m.no]; !ok {
				unsure = append(unsure, m.no)
			}
		}
	}
	if !c.loaded() {
		return c, nil
	}
	for no := range c.live {
		if !held[no] {
			unsure = append(unsure, no)
		}
	}
	if len(unsure) > 0 {
		if c.status, err = s.deps.Books.Statuses(ctx, unsure); err != nil {
			return nil, fmt.Errorf("inventory: read orders of item %d: %w", itemID, err)
		}
	}
	return c, nil
}

// readShard reads a counter's state, marks and holds as of one moment.
func (s *Service) readShard(ctx context.Context, item Item, atomic bool) (shardCut, error) {
	for range epochTurns {
		// Reset in each turn: entries read under a replaced epoch must be dropped.
		sh := shardCut{item: item, users: map[int64]mark{}, holds: map[ids.ID]openHold{}, buyers: map[int64]ids.ID{}}
		st, ok, err := s.State(ctx, item)
		if err != nil || !ok || !st.Ready() {
			return sh, err
		}
		size, err := s.deps.Redis.HLen(ctx, item.usersKey(st.Epoch)).Result()
		if err != nil {
			return sh, fmt.Errorf("inventory: count holders of item %d: %w", item.ID, err)
		}
		if atomic || size <= atomicUsers {
			ok, err = s.readAtOnce(ctx, st, &sh)
		} else {
			ok, err = s.readInPortions(ctx, st, &sh)
		}
		if err != nil || ok {
			return sh, err
		}
	}
	return shardCut{}, fmt.Errorf("inventory: item %d is loaded again and again: %w", item.ID, ErrFenced)
}

// readAtOnce returns false if a Load intervened.
func (s *Service) readAtOnce(ctx context.Context, st State, sh *shardCut) (bool, error) {
	item := sh.item
	var figures *redis.SliceCmd
	var users, holds, buyers *redis.MapStringStringCmd
	_, err := s.deps.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		figures = p.HMGet(ctx, item.stateKey(), "epoch", "remaining", "committed", "total", "seq", "persisted", "rel", "rev", "fenced")
		users = p.HGetAll(ctx, item.usersKey(st.Epoch))
		holds = p.HGetAll(ctx, item.holdsKey(st.Epoch))
		if item.PerActivity {
			buyers = p.HGetAll(ctx, item.buyersKey())
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("inventory: read item %d: %w", item.ID, err)
	}
	into := []*int64{&st.Epoch, &st.Remaining, &st.Committed, &st.Total, &st.Seq, &st.Persisted, &st.Rel, &st.Rev, &st.fencedFor}
	before := st.Epoch
	for i, v := range figures.Val() {
		text, ok := v.(string)
		if !ok {
			return false, nil
		}
		if *into[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return false, fmt.Errorf("inventory: state of item %d: %w", item.ID, err)
		}
	}
	if st.Epoch != before || st.fencedFor != 0 {
		return false, nil
	}
	for user, value := range users.Val() {
		if err := sh.addUser(user, value); err != nil {
			return false, err
		}
	}
	for no, value := range holds.Val() {
		if err := sh.addHold(no, value); err != nil {
			return false, err
		}
	}
	if buyers != nil {
		for user, value := range buyers.Val() {
			if err := sh.addBuyer(user, value); err != nil {
				return false, err
			}
		}
	}
	sh.loaded, sh.state = true, st
	return true, nil
}

// readInPortions lets Redis serve others between the portions. The state is read
// after them, so that movement in between shows as a difference and not as
// agreement. It returns false if a Load intervened.
func (s *Service) readInPortions(ctx context.Context, st State, sh *shardCut) (bool, error) {
	read := func(key string, add func(field, value string) error) error {
		return s.scan(ctx, key, func(field, value string) (bool, error) { return true, add(field, value) })
	}
	if err := read(sh.item.usersKey(st.Epoch), sh.addUser); err != nil {
		return false, err
	}
	if err := read(sh.item.holdsKey(st.Epoch), sh.addHold); err != nil {
		return false, err
	}
	if sh.item.PerActivity {
		if err := read(sh.item.buyersKey(), sh.addBuyer); err != nil {
			return false, err
		}
	}
	after, ok, err := s.State(ctx, sh.item)
	if err != nil || !ok || after.Epoch != st.Epoch || !after.Ready() {
		return false, err
	}
	sh.loaded, sh.state = true, after
	return true, nil
}

func (sh *shardCut) addUser(user, value string) error {
	if user == weightField {
		return nil
	}
	id, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return fmt.Errorf("inventory: holder %q of item %d: %w", user, sh.item.ID, err)
	}
	m, err := parseMark(value)
	if err == nil && !m.closed {
		sh.users[id] = m
	}
	return err
}

func (sh *shardCut) addHold(number, value string) error {
	if number == weightField {
		return nil
	}
	no, err := ids.Parse(number)
	if err != nil {
		return fmt.Errorf("inventory: hold of item %d: %w", sh.item.ID, err)
	}
	sh.holds[no], err = parseOpenHold(value)
	return err
}

// addBuyer adds a buyer of the activity if the entry is for this item; the list
// covers all its items.
func (sh *shardCut) addBuyer(user, value string) error {
	if user == weightField {
		return nil
	}
	no, closed, ours, err := parseBuyer(value, sh.item.ID)
	if err != nil || !ours || closed {
		return err
	}
	id, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return fmt.Errorf("inventory: buyer %q of activity %d: %w", user, sh.item.ActivityID, err)
	}
	sh.buyers[id] = no
	return nil
}
