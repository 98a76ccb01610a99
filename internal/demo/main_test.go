package demo

import (
	"testing"

	"duly.dev/duly/internal/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }
