#!/usr/bin/env python3
"""Writes the tables of kernels into README.md beside this file.

usage: kernel_table.py [--arch sm_90] [--check]

Compiles every kernel with nvcc, which says what registers, shared memory and
spilled bytes it takes. Bytes and FLOP are taken from the comments beside the
launchers. With --check nothing is written, and the exit code is 1 when a kernel
spills registers.
"""
import argparse
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
BEGIN, END = '<!-- made by kernel_table.py: -->', '<!-- end -->'


def run(*command):
    return subprocess.run(command, text=True, check=True,
                          stdout=subprocess.PIPE).stdout


def short(name):
    """Kernel and template arguments, without types and namespaces."""
    name = name.replace('(anonymous namespace)::', '')
    name = re.sub(r'_GLOBAL__N__\w+::', '', name)
    name = name.replace('gimbal::compute::cuda::', '').removeprefix('void ')
    return re.sub(r'\(.*\)$', '', re.sub(r'\((?:int|long|bool)\)', '', name))


def kernels(arch):
    """(name, registers, shared bytes, spilled bytes) of each, sorted."""
    rows = []
    for source in sorted(FOLDER.glob('*.cu')):
        log = subprocess.run(
            ['nvcc', '-std=c++20', '-arch', arch, '-cubin', '-Xptxas', '-v', '-I',
             FOLDER.parents[2], '-o', '/dev/null', source],
            text=True, check=True, stderr=subprocess.PIPE).stderr
        for entry in log.split('Compiling entry function')[1:]:
            name = re.match(r" '(\w+)'", entry)[1]
            shared = re.search(r'(\d+) bytes smem', entry)
            rows.append((f'{source.stem}: ' + short(run('c++filt', name).strip()),
                         int(re.search(r'Used (\d+) registers', entry)[1]),
                         int(shared[1]) if shared else 0,
                         int(re.search(r'(\d+) bytes spill stores', entry)[1])))
    return sorted(rows)


def launchers():
    """(function, bytes, FLOP) from the comments of the headers."""
    rows = []
    for header in sorted(FOLDER.glob('*.h')):
        comment = ''
        for line in header.read_text().splitlines():
            if line.strip().startswith('//'):
                comment += ' ' + line.strip()[2:].strip()
                continue
            declared = re.match(r'\s*void (operator\(\)|\w+)\(', line)
            if declared and re.search(r'Bytes|FLOP', comment):
                name = declared[1].replace('operator()', 'Gemm')
                cost = [re.search(word + r'[^:]*: (.*?)(?:\. |\.?$)', comment)
                        for word in ('Bytes', 'FLOP')]
                rows.append((name, *(c[1] if c else '' for c in cost)))
            if line.strip():
                comment = ''
    return rows


def table(head, rows):
    lines = ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head)]
    lines += ['| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows]
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--arch', default='sm_90')
    parser.add_argument('--check', action='store_true')
    options = parser.parse_args()
    found = kernels(options.arch)
    spilled = [row for row in found if row[3] > 0]
    if options.check:
        for name, _, _, spill in spilled:
            print(f'{name} spills {spill} bytes of registers')
        sys.exit(1 if spilled else 0)
    text = '\n\n'.join([
        BEGIN,
        table(['launcher', 'bytes', 'FLOP'], launchers()),
        f'Compiled for {options.arch}:',
        table(['kernel', 'registers', 'shared bytes', 'spilled bytes'], found),
        END])
    readme = FOLDER / 'README.md'
    old = readme.read_text()
    readme.write_text(old[:old.index(BEGIN)] + text +
                      old[old.index(END) + len(END):])


if __name__ == '__main__':
    main()
