// Package migrations holds the SQL that builds Stampede's Postgres schemas,
// one schema per module, applied in order by goose from the embedded files.
package migrations

import "embed"

// FS holds every migration, named NNNNN_module.sql.
//
//go:embed *.sql
var FS embed.FS
