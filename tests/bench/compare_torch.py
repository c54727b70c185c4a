"""The model and step of step_bench.cc in PyTorch, eager, one thread.

usage: compare_torch.py [STEPS]
Prints the median: tokens_per_second N. Times are those of the process, not the
wall clock, as in step_bench.
"""
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, CONTEXT, VOCAB, BATCH = 6, 384, 6, 256, 256, 8


def attention(q, k, v, mask):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.ln2 = nn.LayerNorm(HIDDEN)
        self.fc = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.gelu = nn.GELU(approximate="tanh")
        self.mlp_proj = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, HEADS, c // HEADS).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(c, dim=2)
        )
        o = attention(q, k, v, mask).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(o)
        return x + self.mlp_proj(self.gelu(self.fc(self.ln2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, HIDDEN)
        self.wpe = nn.Embedding(CONTEXT, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)
        triangle = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        self.register_buffer("mask", triangle)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    index = torch.arange(BATCH * CONTEXT)
    tokens = (index * index % 251).view(BATCH, CONTEXT)
    targets = ((index + 1) ** 2 % 251).view(BATCH, CONTEXT)
    seconds = []
    for step in range(steps + 1):
        start = time.process_time()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step > 0:  # the first one allocates
            seconds.append(time.process_time() - start)
    seconds.sort()
    print(f"torch {torch.__version__}, loss {loss.item():.6f}")
    print(f"step_ms {1e3 * seconds[len(seconds) // 2]:.1f}")
    print(f"tokens_per_second {BATCH * CONTEXT / seconds[len(seconds) // 2]:.0f}")


if __name__ == "__main__":
    main()
