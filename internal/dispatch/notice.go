package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// notices makes a message of every row of the dead topic, which announces generations
// that need a person. What they say is read now, so that it is as new as can be; a
// generation that was removed meanwhile needs nobody.
func notices(ctx context.Context, ledger Outbox, rows []machine.OutboxRow) ([]packed, error) {
	var refs []job.Ref
	var owners []machine.OutboxRow
	for _, r := range rows {
		for i := range r.Refs {
			owner := r
			owner.Refs = r.Refs[i : i+1]
			refs, owners = append(refs, r.Refs[i]), append(owners, owner)
		}
	}
	found, err := ledger.Notices(ctx, refs)
	if err != nil {
		return nil, err
	}
	if len(found) != len(refs) {
		return nil, fmt.Errorf("the ledger returned %d notices for %d generations", len(found), len(refs))
	}
	var all []packed
	for i, n := range found {
		if n.Key == "" {
			continue
		}
		body, err := json.Marshal(n)
		if err != nil {
			return nil, fmt.Errorf("encoding the notice of job %d: %w", refs[i].Job, err)
		}
		all = append(all, packed{
			message: bus.Message{Type: bus.TypeDead, ID: noticeID(n), Kind: n.Kind, Body: body},
			rows:    owners[i : i+1],
		})
	}
	return all, nil
}

// noticeID is the same for every copy of a generation's notice.
func noticeID(n machine.Notice) string {
	sum := sha256.Sum256([]byte(n.Kind + "\x00" + n.Key + "\x00" + strconv.Itoa(int(n.Generation))))
	return "dead-" + base64.RawURLEncoding.EncodeToString(sum[:18])
}
