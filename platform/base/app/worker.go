package app

import "context"

// Worker is a loop that a module needs running for as long as the process serves.
type Worker struct {
	Name string
	// Run blocks until ctx ends and returns nil then. An error before that is a
	// failure: it is logged and Run is called again after a back-off, so Run
	// must be restartable.
	Run func(ctx context.Context) error
}
