package change

import (
	"testing"

	"go.uber.org/goleak"

	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
