package ledger_test

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// statementLog keeps the statements that a pool sends.
type statementLog struct {
	mu   sync.Mutex
	sent []string
}

func (l *statementLog) add(sql string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, sql)
}

func (l *statementLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = nil
}

// count is how many statements had the text.
func (l *statementLog) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sql := range l.sent {
		if strings.Contains(sql, text) {
			n++
		}
	}
	return n
}

func (l *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.add(data.SQL)
	return ctx
}

func (*statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*statementLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *statementLog) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	l.add(data.SQL)
}

func (*statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
