package redisx_test

import (
	"testing"

	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
