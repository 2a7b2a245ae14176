package redisx_test

import (
	"testing"

	"stampede/platform/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
