package cli

// Program is what main gives to the commands.
type Program struct {
	Settings  Settings // of run, serve and config
	Serve     Server
	Prove     Prover
	Reconcile Reconciler
	Statement StatementComparer
	Version   Version
}

// Commands is the command table.
type Commands struct {
	Run       Run          `cmd:"" help:"Start everything on this machine: Postgres, Redis and NATS as private parts, a demo sale, the server."`
	Serve     Serve        `cmd:"" help:"Serve with existing Postgres and Redis servers."`
	Migrate   Migrate      `cmd:"" help:"Bring the database to this version's schema."`
	Config    Config       `cmd:"" help:"Print the effective settings of serve, secrets hidden."`
	Token     Token        `cmd:"" help:"Mint access tokens with the signing key."`
	Solve     Solve        `cmd:"" help:"Do the proof of work that an answer requires, and print the header's value."`
	Rush      Rush         `cmd:"" help:"Play shoppers against a running server and report."`
	Verify    Verify       `cmd:"" help:"Prove the books; exits 1 naming each violation, 3 when it could not check."`
	Reconcile ReconcileAll `cmd:"" help:"Compare Redis with the orders in Postgres, or the ledger with the payment providers' statements; exits 1 if differences remain."`
	Preflight Preflight    `cmd:"" help:"Check whether an activity's plan and the servers are ready; exits 1 at a stop."`
	Report    Report       `cmd:"" help:"Fetch what a session was, as a page to print or as JSON."`
	Bench     Bench        `cmd:"" help:"Measure each stage beside a bare baseline on this machine, in some minutes."`
	Version   PrintVersion `cmd:"" help:"Print the version."`
	BenchPart BenchPart    `cmd:"" hidden:"" help:"A child that bench starts."`
}

// Commands returns the table with the settings that its commands use.
func (p Program) Commands() *Commands {
	return &Commands{Run: Run{Settings: p.Settings}, Serve: Serve{Settings: p.Settings}, Config: Config{Settings: p.Settings}}
}
