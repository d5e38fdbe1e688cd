"""GPT-2 as its published weights want it: the names and the layout (Conv1D: matrices as in x out) of Hugging Face's
transformers, in plain torch. write() makes a small random one as a folder with config.json and model.safetensors."""

import json
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

SIZES = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 24, "vocab_size": 300}


class Conv1D(nn.Module):
    def __init__(self, out, inside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inside, out) * 0.2)
        self.bias = nn.Parameter(torch.randn(out) * 0.2)

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, width, heads, positions):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Conv1D(3 * width, width), Conv1D(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(positions, positions, dtype=torch.bool))[None, None])

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                             for part in self.c_attn(x).split(width, dim=2))
        weights = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
        weights = weights.masked_fill(~self.bias[:, :, :tokens, :tokens], float("-inf")).softmax(-1)
        return self.c_proj((weights @ value).transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(4 * width, width), Conv1D(width, 4 * width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, positions):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads, positions)
        self.ln_2, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width = sizes["n_embd"]
        self.wte, self.wpe = nn.Embedding(sizes["vocab_size"], width), nn.Embedding(sizes["n_positions"], width)
        self.h = nn.ModuleList(Block(width, sizes["n_head"], sizes["n_positions"]) for _ in range(sizes["n_layer"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Gpt2(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.transformer = Transformer(sizes)

    def forward(self, ids):
        return self.transformer(ids) @ self.transformer.wte.weight.T


def write(folder, seed=1, prefix=True):
    """A model with random norms and biases too, so that each of its tensors matters. Returns it."""
    torch.manual_seed(seed)
    model = Gpt2(SIZES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".ln_" in name:
                parameter += 0.3 * torch.randn_like(parameter)
    tensors = {name if prefix else name.removeprefix("transformer."): tensor.contiguous()
               for name, tensor in model.state_dict().items()}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, **SIZES}))
    return model
