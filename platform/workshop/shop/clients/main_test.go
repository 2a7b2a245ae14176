package clients

import (
	"testing"

	"stampede/platform/workshop/shop"
)

func TestMain(m *testing.M) { shop.Main(m) }
