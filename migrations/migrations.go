// Package migrations holds the SQL that builds Stampede's Postgres schemas,
// applied in order by goose from the embedded files.
//
// The first release has one file per schema. A later change is a new file whose
// number is the next hundred, so that a repair of an old release finds a number
// between two others.
package migrations

import "embed"

// FS holds every migration, named NNNNN_schema.sql.
//
//go:embed *.sql
var FS embed.FS
