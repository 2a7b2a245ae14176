// Package migrations contains the SQL that creates Stampede's Postgres schemas,
// applied in order by goose from the embedded files.
//
// The first release has one file per schema. A later change is a new file whose
// number is the next hundred, so that a fix for an old release finds a free
// number between two others.
package migrations

import "embed"

// FS contains every migration, named NNNNN_schema.sql.
//
//go:embed *.sql
var FS embed.FS
