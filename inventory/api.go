//nolint:revive // each name is documented where it is declared
package inventory

import (
	"stampede/inventory/books"
	"stampede/inventory/decide"
	"stampede/inventory/ledger"
	"stampede/inventory/stock"
)

// The types that other modules pass and get, under their names here: sub-packages are private to the module.
type (
	Settings = stock.Settings
	Config   = stock.Config
	Deps     = stock.Deps
	Grants   = stock.Grants

	Item      = stock.Item
	Key       = stock.Key
	Stock     = stock.Row
	State     = stock.State
	Held      = stock.Held
	Tombstone = stock.Tombstone
	Units     = stock.Units
	StaleHold = stock.StaleHold

	NewStock = ledger.NewStock
	Change   = ledger.Change
	Movement = ledger.Movement

	Attempt  = decide.Attempt
	Decision = decide.Decision
	Whole    = ledger.Whole
	Result   = decide.Result
	Gate     = decide.Gate
	Written  = decide.Written

	Book    = books.Book
	BookRow = books.Row
	Left    = books.Left
)

// What a Decision says; see the package decide.
const (
	MaxBatch = decide.MaxBatch

	Granted       = decide.Granted
	Repeated      = decide.Repeated
	AlreadyBought = decide.AlreadyBought
	NotEnough     = decide.NotEnough
	SoldOut       = decide.SoldOut
	AllHeld       = decide.AllHeld
	Finished      = decide.Finished
	OverLimit     = decide.OverLimit
	Elsewhere     = decide.Elsewhere

	Open       = decide.Open
	Fenced     = decide.Fenced
	NotStarted = decide.NotStarted
	Ended      = decide.Ended
	Paused     = decide.Paused
)

// MostShards is the most stock counters one item may have.
const MostShards = stock.MostShards

// MaxUnits is the most units one item may have.
const MaxUnits = ledger.MaxUnits

// What Health says of an item that needs no Load; see the package books.
const (
	Unseen = books.Unseen
	Behind = books.Behind
)

var (
	ErrFenced  = stock.ErrFenced  // the item cannot answer now; a retry after a Load succeeds
	ErrNoStock = stock.ErrNoStock // the item has no stock row
	ErrBusy    = stock.ErrBusy    // another instance is loading the item, or has just done so

	// RedisKeys are the prefixes of the module's keys.
	RedisKeys = stock.RedisKeys
	// ItemSubject names an item in alarms, findings and the audit log.
	ItemSubject   = stock.ItemSubject
	NewConfig     = stock.NewConfig
	HomeOf        = stock.HomeOf
	DefaultConfig = stock.DefaultConfig
)
