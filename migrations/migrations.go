// Package migrations contains the SQL that creates Stampede's Postgres schemas,
// applied in order by goose from the embedded files.
//
// A released file never changes (a test has its hash): its database exists in shops.
// A later change is a new file, whose number leaves room for a fix of an old
// release between two others.
//
// # Expand, and contract a release later
//
// An upgrade restarts one instance after the other, so instances of the release before
// read and write the migrated schema. Hence a migration only adds: tables, indexes, columns that are
// NULL or have a default, values that a CHECK allows. What a release no longer uses (a
// column, a name, a looser rule) is dropped, renamed or tightened by a migration of the
// release after it. A test refuses statements that do so, apart from the ones it lists
// with their reason; it cannot see a CHECK that forbids what the release before writes.
//
// orders.archive, which only 0.10.0 uses, has the columns of orders.orders in the same order: add a column to both until
// the release after the next drops it.
// Nothing runs a Down: a database keeps its schema when the program of the release before serves it again, see
// pg.StepBack.
package migrations

import "embed"

// LastRelease is the release before this program, whose instances may share a database with it, and LastReleaseVersion
// the last of its migrations. They change with the first migration after a release.
const (
	LastRelease        = "0.10.0"
	LastReleaseVersion = 1170
)

// FS contains every migration, named NNNNN_schema.sql.
//
//go:embed *.sql
var FS embed.FS
